"""Lockstep's built-in models in Python: the same modules, names and initialization as in models/zoo.

After torch.manual_seed(s), a Python model and the C++ model (run.seed: s) have bit-identical weights, and the same batch yields
the same logits, loss and gradients. mlp(), cnn(), resnet(), vit() and gpt() have the same options as `model:` in a run file:
`lockstep-compile lockstep.models:gpt layers=6 --seed 3 ...` compiles what `model: {name: gpt, layers: 6}` trains.
"""

import math
from typing import Sequence

import torch
from torch import nn
from torch.nn import functional as F


def mlp(hidden: Sequence[int] = (256, 128), inputs: int = 784, classes: int = 10) -> "Mlp":
    return Mlp(hidden, inputs, classes)


def cnn(channels: Sequence[int] = (32, 64), hidden: int = 128, image_size: int = 28, in_channels: int = 1,
        classes: int = 10) -> "Cnn":
    return Cnn(channels, hidden, image_size, in_channels, classes)


def resnet(depth: int = 18, classes: int = 1000, in_channels: int = 3, stem: str = "imagenet",
           zero_init_residual: bool = False) -> "Resnet":
    return Resnet(depth, classes, in_channels, stem, zero_init_residual)


def vit(image_size: int = 224, patch_size: int = 16, layers: int = 12, heads: int = 12, width: int = 768,
        mlp_width: int = 3072, dropout: float = 0.0, attention_dropout: float = 0.0, in_channels: int = 3,
        classes: int = 1000) -> "Vit":
    return Vit(image_size, patch_size, layers, heads, width, mlp_width, dropout, attention_dropout, in_channels, classes)


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


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions, or 1x1, 3x3 and 1x1 convolutions, with a shortcut connection."""

    def __init__(self, inputs: int, width: int, stride: int, is_bottleneck: bool) -> None:
        super().__init__()
        outputs = 4 * width if is_bottleneck else width
        downsample = None
        if stride != 1 or inputs != outputs:
            downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        convs = [(inputs, width, 3, stride), (width, width, 3, 1)]
        if is_bottleneck:
            convs = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
        for i, (channels_in, channels_out, kernel, step) in enumerate(convs, 1):
            self.add_module(f"conv{i}", nn.Conv2d(channels_in, channels_out, kernel, step, kernel // 2, bias=False))
            self.add_module(f"bn{i}", nn.BatchNorm2d(channels_out))
        self.num_convs = len(convs)
        self.downsample = downsample

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for i in range(1, self.num_convs + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            if i < self.num_convs:
                y = F.relu(y)
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class Resnet(nn.Module):
    """models/zoo/resnet.cpp: torchvision's resnet18 to resnet152, over the field `image`."""

    BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}

    def __init__(self, depth: int = 18, classes: int = 1000, in_channels: int = 3, stem: str = "imagenet",
                 zero_init_residual: bool = False) -> None:
        super().__init__()
        if depth not in self.BLOCKS:
            raise ValueError(f"model resnet: invalid depth {depth}; valid: 18, 34, 50, 101, 152")
        if stem not in ("imagenet", "small"):
            raise ValueError(f"model resnet: invalid stem '{stem}'; valid: imagenet, small")
        self.pools = stem == "imagenet"
        self.conv1 = nn.Conv2d(in_channels, 64, 7, 2, 3, bias=False) if self.pools else \
            nn.Conv2d(in_channels, 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        channels = 64
        for stage, num_blocks in enumerate(self.BLOCKS[depth]):
            blocks = []
            for i in range(num_blocks):
                stride = 2 if i == 0 and stage > 0 else 1
                blocks.append(ResidualBlock(channels, 64 << stage, stride, depth >= 50))
                channels = (64 << stage) * (4 if depth >= 50 else 1)
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if zero_init_residual and isinstance(module, ResidualBlock):
                nn.init.zeros_(getattr(module, f"bn{module.num_convs}").weight)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.bn1(self.conv1(image)))
        if self.pools:
            x = F.max_pool2d(x, 3, 2, 1)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return self.fc(F.adaptive_avg_pool2d(x, (1, 1)).flatten(1))


class SelfAttention(nn.Module):
    """nn.MultiheadAttention as self-attention."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_proj = nn.Linear(width, width)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        samples, tokens, width = x.shape
        parts = F.linear(x.transpose(1, 0), self.in_proj_weight, self.in_proj_bias)
        parts = parts.unflatten(-1, (3, width)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        query, key, value = (part.view(tokens, samples * self.heads, width // self.heads).transpose(0, 1)
                             .view(samples, self.heads, tokens, width // self.heads) for part in parts.unbind())
        mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=self.dropout if self.training else 0.0)
        mixed = mixed.permute(2, 0, 1, 3).contiguous().view(tokens * samples, width)
        return self.out_proj(mixed).view(tokens, samples, width).transpose(1, 0)


class EncoderBlock(nn.Module):
    def __init__(self, width: int, heads: int, mlp_width: int, dropout: float, attention_dropout: float) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=1e-6)
        self.self_attention = SelfAttention(width, heads, attention_dropout)
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, mlp_width), nn.GELU(), nn.Dropout(dropout), nn.Linear(mlp_width, width),
                                 nn.Dropout(dropout))
        for layer in (self.mlp[0], self.mlp[3]):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.normal_(layer.bias, std=1e-6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.dropout(self.self_attention(self.ln_1(x))) + x
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    def __init__(self, tokens: int, layers: int, width: int, dropout: float, *block: object) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.empty(1, tokens, width).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential()
        for i in range(layers):
            self.layers.add_module(f"encoder_layer_{i}", EncoderBlock(width, *block))
        self.ln = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.ln(self.layers(self.dropout(x + self.pos_embedding)))


class Vit(nn.Module):
    """models/zoo/vit.cpp: torchvision's VisionTransformer, over the field `image`."""

    def __init__(self, image_size: int = 224, patch_size: int = 16, layers: int = 12, heads: int = 12, width: int = 768,
                 mlp_width: int = 3072, dropout: float = 0.0, attention_dropout: float = 0.0, in_channels: int = 3,
                 classes: int = 1000) -> None:
        super().__init__()
        if image_size % patch_size:
            raise ValueError(f"model vit: patches of {patch_size} pixels do not divide images of {image_size}")
        if width % heads:
            raise ValueError(f"model vit: {heads} heads do not divide a width of {width}")
        self.conv_proj = nn.Conv2d(in_channels, width, patch_size, patch_size)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.encoder = Encoder((image_size // patch_size) ** 2 + 1, layers, width, dropout, heads, mlp_width, dropout,
                               attention_dropout)
        self.heads = nn.ModuleDict({"head": nn.Linear(width, classes)})
        nn.init.trunc_normal_(self.conv_proj.weight, std=math.sqrt(1 / (in_channels * patch_size**2)))
        for parameter in (self.conv_proj.bias, self.heads["head"].weight, self.heads["head"].bias):
            nn.init.zeros_(parameter)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        patches = self.conv_proj(image).flatten(2).permute(0, 2, 1)
        x = torch.cat([self.class_token.expand(image.shape[0], -1, -1), patches], dim=1)
        return self.heads["head"](self.encoder(x)[:, 0])


class Projection(nn.Module):
    """Like Linear, with the weight as [in, out]: Conv1D in Hugging Face's transformers."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.bias, x.flatten(0, -2), self.weight).view(*x.shape[:-1], -1)


class Table(nn.Module):
    """A matrix with one row per token, position or logit. Gpt.initialize() initializes it."""

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
        self.initialize()

    def initialize(self) -> None:
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
    """The equivalent of `model: {name: NAME, ...}` with run.seed `seed`."""
    makers = {"mlp": mlp, "cnn": cnn, "resnet": resnet, "vit": vit, "gpt": gpt}
    if name not in makers:
        raise ValueError(f"unknown model '{name}'; valid: {', '.join(makers)}")
    torch.manual_seed(seed)
    return makers[name](**config)
