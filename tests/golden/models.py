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


class Projection(nn.Module):
    """Like Linear, with the weight as [in, out]: Conv1D in Hugging Face's transformers."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return torch.addmm(self.bias, x.flatten(0, -2), self.weight).view(*x.shape[:-1], -1)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = Projection(width, 3 * width)
        self.c_proj = Projection(width, width)

    def forward(self, x):
        parts = self.c_attn(x).split(x.shape[-1], dim=2)
        query, key, value = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.c_proj(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict(
            {"c_fc": Projection(width, 4 * width), "c_proj": Projection(4 * width, width)}
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        inner = F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh")
        return x + self.mlp["c_proj"](inner)


class Gpt(nn.Module):
    """models/zoo/gpt.cpp: GPT-2 with the names of Hugging Face's GPT2LMHeadModel."""

    def __init__(
        self, vocab_size=257, context=256, layers=4, heads=4, width=128, tied_embeddings=True
    ):
        super().__init__()
        blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocab_size, width),
                "wpe": nn.Embedding(context, width),
                "h": blocks,
                "ln_f": nn.LayerNorm(width),
            }
        )
        if not tied_embeddings:
            self.lm_head = nn.Linear(width, vocab_size, bias=False)
        self.tied_embeddings = tied_embeddings

    def initialise(self):
        """Draws all weights in the order of the parameters."""
        residual = 0.02 / (2 * len(self.transformer["h"])) ** 0.5
        for name, parameter in self.named_parameters():
            if name.endswith(".bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 1:
                nn.init.ones_(parameter)
            else:
                nn.init.normal_(parameter, 0, residual if name.endswith("c_proj.weight") else 0.02)

    def forward(self, tokens):
        parts = self.transformer
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = parts["wte"](tokens) + parts["wpe"](places)
        for block in parts["h"]:
            x = block(x)
        head = parts["wte"] if self.tied_embeddings else self.lm_head
        return F.linear(parts["ln_f"](x), head.weight)


def build_gpt(seed, **sizes):
    """The model `gpt` as the trainer builds it."""
    model = Gpt(**sizes)
    torch.manual_seed(seed)
    model.initialise()
    return model


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
