"""A model in plain Python: a small convolutional network with batch normalization, for MNIST.

    lockstep-compile examples/compiled/model.py:make_model --loss cross_entropy --batch examples/compiled/run.yaml -o model.ls2
    lockstep launch -n 2 examples/compiled/run.yaml
"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width: int = 16, classes: int = 10):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2), nn.BatchNorm2d(2 * width), nn.ReLU(),
        )
        self.head = nn.Linear(2 * width * 36, classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:  # receives the field `image` of a batch
        return self.head(self.body(image).flatten(1))


def make_model() -> nn.Module:
    return Net()
