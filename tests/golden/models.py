"""Python twins of the models in models/zoo: the same modules, names and initialisation.

After torch.manual_seed(s) a twin and its C++ model (run.seed: s) hold the same bits, and the same
batch gives the same logits and gradients.
"""

import torch
from torch import nn
from torch.nn import functional as F


class Mlp(nn.Module):
    """models/zoo/mlp.cpp: Linear and ReLU layers over the flattened image."""

    def __init__(self, hidden=(256, 128), inputs=784, classes=10):
        super().__init__()
        layers = []
        width = inputs
        for size in hidden:
            layers += [nn.Linear(width, size), nn.ReLU()]
            width = size
        self.layers = nn.Sequential(*layers, nn.Linear(width, classes))

    def forward(self, image):
        return self.layers(image.flatten(1))


class Cnn(nn.Module):
    """models/zoo/cnn.cpp: 3x3 convolutions, ReLU, 2x2 max pooling, two fully connected layers."""

    def __init__(self, channels=(32, 64), hidden=128, image_size=28, in_channels=1, classes=10):
        super().__init__()
        self.num_convs = len(channels)
        for i, size in enumerate(channels):
            self.add_module(f"conv{i + 1}", nn.Conv2d(in_channels, size, 3))
            in_channels = size
            image_size = (image_size - 2) // 2
        self.fc1 = nn.Linear(in_channels * image_size**2, hidden)
        self.fc2 = nn.Linear(hidden, classes)

    def forward(self, image):
        x = image
        for i in range(self.num_convs):
            x = F.max_pool2d(F.relu(getattr(self, f"conv{i + 1}")(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def build(model, seed, hidden=None):
    """The model `mlp` or `cnn` as the trainer builds it.

    `hidden`: the widths of the mlp's layers; of the cnn's only one.
    """
    torch.manual_seed(seed)
    if model == "mlp":
        return Mlp() if hidden is None else Mlp(hidden=hidden)
    if model == "cnn":
        return Cnn() if hidden is None else Cnn(hidden=hidden[0])
    raise ValueError(f"unknown model {model!r}; valid: mlp, cnn")
