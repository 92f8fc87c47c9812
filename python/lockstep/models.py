"""The models that Lockstep has built in, in Python: the same modules, names and initialisation as in models/zoo.

After torch.manual_seed(s) a twin and its C++ model (run.seed: s) hold the same bits, and the same batch gives the same
logits, loss and gradients. mlp(), cnn() and gpt() take what `model:` of a run file does, so that
`lockstep-compile lockstep.models:gpt layers=6 --seed 3 ...` compiles what `model: {name: gpt, layers: 6}` trains.
"""

from typing import Sequence

import torch
from torch import nn
from torch.nn import functional as F


def mlp(hidden: Sequence[int] = (256, 128), inputs: int = 784, classes: int = 10) -> "Mlp":
    return Mlp(hidden, inputs, classes)


def cnn(channels: Sequence[int] = (32, 64), hidden: int = 128, image_size: int = 28, in_channels: int = 1,
        classes: int = 10) -> "Cnn":
    return Cnn(channels, hidden, image_size, in_channels, classes)


def gpt(vocab_size: int = 257, context: int = 256, layers: int = 4, heads: int = 4, width: int = 128, dropout: float = 0.0,
        tied_embeddings: bool = True) -> "Gpt":
    return Gpt(vocab_size, context, layers, heads, width, dropout, tied_embeddings)


class Mlp(nn.Module):
    """models/zoo/mlp.cpp: Linear and ReLU layers over the flattened field `image`."""

    def __init__(self, hidden: Sequence[int] = (256, 128), inputs: int = 784, classes: int = 10) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = inputs
        for size in hidden:
            layers += [nn.Linear(width, size), nn.ReLU()]
            width = size
        self.layers = nn.Sequential(*layers, nn.Linear(width, classes))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.layers(image.flatten(1))


class Cnn(nn.Module):
    """models/zoo/cnn.cpp: 3x3 convolutions, ReLU, 2x2 max pooling, two fully connected layers."""

    def __init__(self, channels: Sequence[int] = (32, 64), hidden: int = 128, image_size: int = 28, in_channels: int = 1,
                 classes: int = 10) -> None:
        super().__init__()
        self.num_convs = len(channels)
        for i, size in enumerate(channels):
            self.add_module(f"conv{i + 1}", nn.Conv2d(in_channels, size, 3))
            in_channels = size
            image_size = (image_size - 2) // 2
        self.fc1 = nn.Linear(in_channels * image_size**2, hidden)
        self.fc2 = nn.Linear(hidden, classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = image
        for i in range(self.num_convs):
            x = F.max_pool2d(F.relu(getattr(self, f"conv{i + 1}")(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class Projection(nn.Module):
    """Like Linear, with the weight as [in, out]: Conv1D in Hugging Face's transformers."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.bias, x.flatten(0, -2), self.weight).view(*x.shape[:-1], -1)


class Table(nn.Module):
    """A matrix with a row per token, position or logit. It draws nothing: Gpt.initialise() does."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows, width))

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        return F.embedding(numbers, self.weight)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.c_attn = Projection(width, 3 * width)
        self.c_proj = Projection(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.c_attn(x).split(x.shape[-1], dim=2)
        query, key, value = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True,
                                               dropout_p=self.dropout if self.training else 0.0)
        return self.c_proj(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads, dropout)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"c_fc": Projection(width, 4 * width), "c_proj": Projection(4 * width, width)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + kept(self.attn(self.ln_1(x)), self.dropout, self.training)
        inner = F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh")
        return x + kept(self.mlp["c_proj"](inner), self.dropout, self.training)


def kept(x: torch.Tensor, dropout: float, training: bool) -> torch.Tensor:
    return F.dropout(x, dropout, training) if dropout > 0 else x


class Gpt(nn.Module):
    """models/zoo/gpt.cpp: GPT-2 with the names of Hugging Face's GPT2LMHeadModel, over the field `tokens`."""

    def __init__(self, vocab_size: int = 257, context: int = 256, layers: int = 4, heads: int = 4, width: int = 128,
                 dropout: float = 0.0, tied_embeddings: bool = True) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"model gpt: {heads} heads do not divide a width of {width}")
        blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.transformer = nn.ModuleDict({"wte": Table(vocab_size, width), "wpe": Table(context, width), "h": blocks,
                                          "ln_f": nn.LayerNorm(width)})
        if not tied_embeddings:
            self.lm_head = Table(vocab_size, width)
        self.dropout = dropout
        self.tied_embeddings = tied_embeddings
        self.initialise()

    def initialise(self) -> None:
        """Draws all weights in the order of the parameters."""
        residual = 0.02 / (2 * len(self.transformer["h"])) ** 0.5
        for name, parameter in self.named_parameters():
            if name.endswith(".bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 1:
                nn.init.ones_(parameter)
            else:
                nn.init.normal_(parameter, 0, residual if name.endswith("c_proj.weight") else 0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        parts = self.transformer
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = kept(parts["wte"](tokens) + parts["wpe"](places), self.dropout, self.training)
        for block in parts["h"]:
            x = block(x)
        head = parts["wte"] if self.tied_embeddings else self.lm_head
        return F.linear(parts["ln_f"](x), head.weight)


def build(name: str, seed: int, **config: object) -> nn.Module:
    """What `model: {name: NAME, ...}` with run.seed `seed` makes."""
    makers = {"mlp": mlp, "cnn": cnn, "gpt": gpt}
    if name not in makers:
        raise ValueError(f"unknown model '{name}'; valid: {', '.join(makers)}")
    torch.manual_seed(seed)
    return makers[name](**config)
