"""A table of small models that are compiled and compared with Python, or rejected, with the expected result of each."""

import random
from dataclasses import dataclass, field
from typing import Callable

import numpy
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

BATCH = 16  # as wide as most layers here
SAMPLES = 48  # of training and of evaluation
CLASSES = 3
VOCABULARY = 24
TOKENS = 6


@dataclass
class Case:
    """`make`: the model. `data`: its fields, of SAMPLES samples. `refused`: parts of the error message; `warned`: of a warning.

    `tolerance`: of losses and weights, relative. None: random numbers are drawn, so only that it trains is compared.
    """

    make: Callable[[], nn.Module]
    data: Callable[[], dict[str, torch.Tensor]]
    loss: object = "cross_entropy"
    batch: int = BATCH
    refused: tuple[str, ...] = ()
    warned: str = ""
    tolerance: float | None = 1e-4
    optimizer: dict = field(default_factory=lambda: {"name": "sgd", "lr": 0.05})
    options: dict = field(default_factory=dict)
    short: bool = False  # in the short form of the test
    mixes_samples: bool = False  # its loss is not a mean over samples: it depends on how they are batched


# Data.


def vectors(width=16, classes=CLASSES):
    return {"x": torch.randn(SAMPLES, width), "label": torch.randint(0, classes, (SAMPLES,))}


def images():
    return {"image": torch.rand(SAMPLES, 1, 16, 16), "label": torch.randint(0, CLASSES, (SAMPLES,))}


def noisy_images():
    return {"image": torch.rand(SAMPLES, 1, 16, 16), "target": torch.rand(SAMPLES, 1, 16, 16)}


def colors():
    return {"pixel_values": torch.rand(SAMPLES, 3, 32, 32), "labels": torch.randint(0, CLASSES, (SAMPLES,))}


def sequences():
    return {"x": torch.randn(SAMPLES, 5, 8), "label": torch.randint(0, CLASSES, (SAMPLES,))}


def text():
    tokens = torch.randint(1, VOCABULARY, (SAMPLES, TOKENS))
    return {"input_ids": tokens, "labels": tokens.clone()}


def padded_text():
    batch = text()
    mask = torch.arange(TOKENS) < torch.randint(2, TOKENS + 1, (SAMPLES, 1))
    return {"input_ids": batch["input_ids"], "attention_mask": mask.long(), "labels": batch["labels"].masked_fill(~mask, -100)}


def masked_text():
    batch = text()
    masked = torch.rand(SAMPLES, TOKENS) < 0.3
    masked[:, 0] = True
    return {"input_ids": batch["input_ids"].masked_fill(masked, 0), "labels": batch["labels"].masked_fill(~masked, -100)}


def padded_labels():
    batch = padded_text()
    return {"input_ids": batch["input_ids"], "labels": batch["labels"]}


def classified_text():
    return {"input_ids": text()["input_ids"], "labels": torch.randint(0, CLASSES, (SAMPLES,))}


def speech():
    return {"input_features": torch.randn(SAMPLES, 8, 32), "labels": text()["labels"]}


def graphs():
    """Nodes with four neighbors each."""
    return {"x": torch.randn(SAMPLES, 7, 8), "edges": torch.randint(0, 7, (SAMPLES, 2, 28)),
            "label": torch.randint(0, CLASSES, (SAMPLES,))}


def bags():
    return {"x": torch.randint(0, VOCABULARY, (SAMPLES, TOKENS)), "label": torch.randint(0, CLASSES, (SAMPLES,))}


def regression():
    return {"x": torch.randn(SAMPLES, 16), "target": torch.randn(SAMPLES)}


def altered(data, **changes):
    return lambda: {name: changes[name](value) if name in changes else value for name, value in data().items()}


# Models. `x` of 16 numbers, unless stated otherwise.


class Net(nn.Module):
    """One linear layer, plus the code of a case."""

    def __init__(self, width=16, classes=CLASSES):
        super().__init__()
        self.layer = nn.Linear(width, classes)
        self.prepare()

    def prepare(self):
        pass

    def forward(self, x):
        return self.layer(self.change(x))

    def change(self, x):
        return x


class TransposedWeight(Net):
    def prepare(self):
        self.layer.weight = nn.Parameter(torch.randn(16, CLASSES).t())


class ConstantBuffer(Net):
    def prepare(self):
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 16), persistent=False)

    def change(self, x):
        return x * self.scale


class TensorAttribute(Net):
    def prepare(self):
        self.scale = torch.linspace(0.5, 1.5, 16)

    def change(self, x):
        return x * self.scale


class TensorInForward(Net):
    def change(self, x):
        return x * torch.tensor([0.5, 2.0] * 8)


def weighted_loss(model, batch):
    return F.cross_entropy(model(batch["x"]), batch["label"], weight=torch.tensor([0.2, 0.3, 0.5]), reduction="none").mean()


class Buffers(Net):
    """Buffers of several types, all changed in training."""

    def prepare(self):
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("average", torch.zeros(16))
        self.register_buffer("seen", torch.zeros(16, dtype=torch.bool))
        self.register_buffer("low", torch.zeros(16, dtype=torch.bfloat16))

    def change(self, x):
        if self.training:
            with torch.no_grad():
                self.steps += 1
                self.average.mul_(0.9).add_(x.mean(0), alpha=0.1)
                self.seen |= (x > 1).any(0)
                self.low.copy_(x.amax(0))
        return x - self.average


class LostBuffer(Net):
    def prepare(self):
        self.register_buffer("average", torch.zeros(16), persistent=False)

    def change(self, x):
        with torch.no_grad():
            self.average.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - self.average


class LostAttribute(Net):
    def prepare(self):
        self.average = torch.zeros(16)

    def change(self, x):
        with torch.no_grad():
            self.average.add_(x.mean(0))
        return x - self.average


class CountsAlways(Net):
    def prepare(self):
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def change(self, x):
        self.steps += 1
        return x


class CountsInANumber(Net):
    """A warm-up."""

    def prepare(self):
        self.steps = 0

    def change(self, x):
        self.steps += 1
        return x * min(1.0, self.steps / 1000)


class MakesACounter(Net):
    def change(self, x):
        self.steps = getattr(self, "steps", 0) + 1
        return x * min(1.0, self.steps / 1000)


class CountsInAList(Net):
    def change(self, x):
        self.steps = getattr(self, "steps", [0])
        self.steps[0] += 1
        return x * min(1.0, self.steps[0] / 1000)


class StochasticDepth(Net):
    draw = staticmethod(random.random)

    def change(self, x):
        return x if self.training and self.draw() < 0.2 else 2 * x


class StochasticDepthOfNumpy(StochasticDepth):
    draw = staticmethod(numpy.random.rand)


class HeadNorm(nn.Module):
    """The norm of each head in Qwen3: its size is the batch's."""

    def __init__(self):
        super().__init__()
        self.layer, self.weight, self.out = nn.Linear(16, 64), nn.Parameter(torch.ones(16)), nn.Linear(64, CLASSES)

    def forward(self, x):
        y = self.layer(x).view(x.shape[0], 4, 16)
        y = self.weight * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6))
        return self.out(y.flatten(1))


class Attention(nn.Module):
    """Two heads of 8 over 6 tokens of 24, with causal mask: every dimension differs."""

    def __init__(self):
        super().__init__()
        self.embedding, self.qkv, self.out = nn.Embedding(VOCABULARY, 16), nn.Linear(16, 48), nn.Linear(16, VOCABULARY)
        self.register_buffer("mask", torch.ones(TOKENS, TOKENS).tril().bool(), persistent=False)

    def forward(self, input_ids):
        b, t = input_ids.shape
        q, k, v = self.qkv(self.embedding(input_ids)).view(b, t, 3, 2, 8).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2) / 8**0.5).masked_fill(~self.mask[:t, :t], float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, 16))


class Denoise(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 1, 3, padding=1)

    def forward(self, image):
        return self.b(torch.relu(self.a(image)))


class DiffusionUNet(Denoise):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ConvTranspose2d(16, 8, 2, stride=2)

    def forward(self, image):
        a = torch.relu(self.a(image))
        return self.b(a + self.up(torch.relu(self.down(a))))


def diffusion_loss(model, batch):
    noise = torch.randn_like(batch["image"])
    level = torch.rand(batch["image"].shape[0], 1, 1, 1)
    return F.mse_loss(model(batch["image"] * (1 - level) + noise * level), noise)


class ConvNeXtBlock(nn.Module):
    """16 channels, as many as samples."""

    def __init__(self):
        super().__init__()
        self.stem, self.depthwise, self.norm = nn.Conv2d(1, 16, 4, 4), nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.LayerNorm(16)
        self.wide, self.narrow, self.scale = nn.Linear(16, 32), nn.Linear(32, 16), nn.Parameter(torch.full((16,), 0.1))
        self.head = nn.Linear(16, CLASSES)

    def forward(self, image):
        x = self.stem(image)
        y = self.narrow(F.gelu(self.wide(self.norm(self.depthwise(x).permute(0, 2, 3, 1)))))
        return self.head((x + (self.scale * y).permute(0, 3, 1, 2)).mean((2, 3)))


class BatchNormNet(nn.Module):
    def __init__(self, norm=nn.BatchNorm2d):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(1, 8, 3, stride=2), norm(8), nn.Linear(8, CLASSES)

    def forward(self, image):
        return self.head(torch.relu(self.norm(self.conv(image))).mean((2, 3)))


class DenseNet(nn.Module):
    def __init__(self):
        super().__init__()
        from torchvision.models.densenet import DenseNet

        self.net = DenseNet(growth_rate=4, block_config=(2,), num_init_features=8, bn_size=2, num_classes=CLASSES)

    def forward(self, pixel_values):
        return self.net(pixel_values)


class Dropout(Net):
    def change(self, x):
        return F.dropout(x, 0.3, self.training)


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(16, 8), nn.Linear(4, 16)

    def forward(self, x):
        mean, logvar = self.encoder(x).chunk(2, -1)
        return self.decoder(mean + torch.randn_like(mean) * (0.5 * logvar).exp()), mean, logvar


def vae_loss(model, batch):
    made, mean, logvar = model(batch["x"])
    rec = F.mse_loss(made, batch["x"], reduction="none").sum(-1)
    kl = -0.5 * (1 + logvar - mean**2 - logvar.exp()).sum(-1)
    return {"loss": (rec + kl).mean(), "rec": rec.sum(), "kl": kl.sum()}


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.net = kind(8, 8, batch_first=True, **options)
        self.head = nn.Linear(16 if options.get("bidirectional") else 8, CLASSES)

    def forward(self, x):
        return self.head(self.net(x)[0][:, -1])


class Gnn(nn.Module):
    """gather, scatter_add and index_add."""

    def __init__(self):
        super().__init__()
        self.message, self.head = nn.Linear(8, 8), nn.Linear(8, CLASSES)

    def forward(self, x, edges):
        source, target = edges.unbind(1)
        wide = (*source.shape, 8)
        sent = self.message(x).gather(1, source.unsqueeze(-1).expand(wide))
        x = x + torch.zeros_like(x).scatter_add(1, target.unsqueeze(-1).expand(wide), sent).tanh()
        rows = torch.arange(x.shape[0]).repeat_interleave(x.shape[1])
        return self.head(torch.zeros(x.shape[0], 8).index_add(0, rows, x.flatten(0, 1)))


class OneHot(nn.Module):
    def __init__(self, classes=VOCABULARY):
        super().__init__()
        self.classes, self.head = classes, nn.Linear(VOCABULARY, CLASSES)

    def forward(self, x):
        return self.head(F.one_hot(x, self.classes).float().mean(1))


class Checkpointed(Net):
    def prepare(self):
        self.inner = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def change(self, x):
        return checkpoint(self.inner, x, use_reentrant=False)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.head(self.layer(x).mean(1))


class LowRank(nn.Module):
    """An adapter of a linear layer whose weights are frozen."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.a, self.b = nn.Parameter(torch.randn(2, layer.weight.shape[1]) * 0.1), nn.Parameter(torch.randn(layer.weight.shape[0], 2) * 0.1)

    def forward(self, x):
        return self.layer(x) + x @ self.a.T @ self.b.T


class Wrapped(nn.Module):
    """Forwards all arguments, as wrappers of models do."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *args, **kwargs):
        return self.inner(*args, **kwargs)


class KeywordsOnly(Net):
    def forward(self, **fields):
        return self.layer(fields["x"])


def adapted_llama():
    model = llama().requires_grad_(False)
    for layer in model.model.layers:
        layer.self_attn.q_proj = LowRank(layer.self_attn.q_proj)
        layer.self_attn.v_proj = LowRank(layer.self_attn.v_proj)
    return Wrapped(model)


class Spectral(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.utils.parametrizations.spectral_norm(nn.Linear(16, 8))
        self.b = nn.utils.parametrizations.weight_norm(nn.Linear(8, CLASSES))

    def forward(self, x):
        return self.b(self.a(x).relu())


class Bags(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.embedding, self.head = nn.EmbeddingBag(VOCABULARY, 8, mode="mean", **options), nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.head(self.embedding(x))


class Fourier(Net):
    def prepare(self):
        self.filter = nn.Parameter(torch.ones(9))

    def change(self, x):
        return torch.fft.irfft(torch.fft.rfft(x) * self.filter, n=16)


class Embedded(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.embedding, self.head = nn.Embedding(VOCABULARY, 8, **options), nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.head(self.embedding(x).mean(1))


class Centered(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("average", torch.zeros(16))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.average.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - self.average


class Reused(Net):
    """Has a layer under two names, keeps a tensor, and changes a field of the batch."""

    def prepare(self):
        self.norm = Centered()
        self.same = self.norm

    def change(self, x):
        self.kept = self.same(self.norm(x.mul_(2).sub_(1)).relu())
        return self.kept


class SameMemory(Net):
    def prepare(self):
        self.other = nn.Linear(16, CLASSES)
        self.other.weight.data = self.layer.weight.data

    def forward(self, x):
        return self.layer(x) + self.other(x).relu()


class Unused(Net):
    def prepare(self):
        self.never = nn.Linear(16, 2)


class DoublePrecision(Net):
    def forward(self, x):
        return super().forward(x.double()).float()


class LowPrecision(Net):
    def forward(self, x):
        return super().forward(x.bfloat16()).float()


class Reverse(torch.autograd.Function):
    """A gradient reversal layer."""

    @staticmethod
    def forward(context, x):
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        return -gradient


class OwnBackward(Net):
    def forward(self, x):
        return Reverse.apply(F.dropout(super().forward(x), 0.3, self.training))


class HookOnGradient(Net):
    def forward(self, x):
        y = F.dropout(super().forward(x), 0.3, self.training)
        if y.requires_grad:
            y.register_hook(lambda gradient: -gradient)
        return y


class HookOnParameter(Net):
    def prepare(self):
        self.layer.weight.register_hook(lambda gradient: gradient * 0)


class Branch(Net):
    def change(self, x):
        if x.mean() > 0:  # of the branch
            return 2 * x
        return x


class ReadsANumber(Net):
    def change(self, x):
        return x * x.sum().item()


class FixedRows(Net):
    def change(self, x):
        return x.reshape(16, 16)


@torch.library.custom_op("lockstep_cases::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


double.register_fake(torch.empty_like)
double.register_autograd(lambda context, gradient: gradient * 2)


class CustomOperator(Net):
    def change(self, x):
        return double(x)


@torch.library.custom_op("quantized::lockstep_cases_double", mutates_args=())
def double_of_libtorch(x: torch.Tensor) -> torch.Tensor:
    """Exists only in this process, but has the name of an operator of LibTorch."""
    return x * 2


double_of_libtorch.register_fake(torch.empty_like)
double_of_libtorch.register_autograd(lambda context, gradient: gradient * 2)


class OperatorOfThisProcess(Net):
    def change(self, x):
        return double_of_libtorch(x)


class OperatorOfTorchInPython(Net):
    def change(self, x):
        return x + torch.ops.prims.fft_r2c(x.detach(), dim=[1], onesided=False).abs()


class Pairs(Net):
    def prepare(self):
        self.layer = nn.Linear(16, 8)


def contrastive_loss(model, batch):
    a, b = (F.normalize(model(x), dim=-1) for x in (batch["x"], batch["x"].flip(-1)))
    scores = a @ b.T / 0.1
    return F.cross_entropy(scores, torch.arange(scores.shape[0]))


def ctc_loss(model, batch):
    """One label of 1 to 3 in a sequence of five."""
    rows = batch["x"].shape[0]
    scores = F.pad(model(batch["x"]), (1, 0)).log_softmax(-1).transpose(0, 1)  # class 0: blank
    return F.ctc_loss(scores, 1 + batch["label"].unsqueeze(1), torch.full((rows,), 5), torch.ones(rows, dtype=torch.int64))


def many_labels_loss(model, batch):
    return F.binary_cross_entropy_with_logits(model(batch["x"]), F.one_hot(batch["label"], CLASSES).float())


# Models of transformers, of one layer.

SMALL = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2,
         "max_position_embeddings": 32}
GROUPED = {**SMALL, "num_key_value_heads": 1, "use_cache": False, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def transformer(name, **options):
    import transformers

    config = getattr(transformers, options.pop("config"))(**options)
    return getattr(transformers, name)(config)


def llama(**options):
    return transformer("LlamaForCausalLM", config="LlamaConfig", **{**GROUPED, **options})


def mixtral(**options):
    return transformer("MixtralForCausalLM", config="MixtralConfig", **GROUPED, num_local_experts=2, num_experts_per_tok=1,
                       output_router_logits=True, **options)


def bert(name, **options):
    return transformer(name, config="BertConfig", **SMALL, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **options)


def checkpointed_llama():
    model = llama()
    model.gradient_checkpointing_enable()
    return model


HUGGING_FACE = {
    "llama": Case(llama, text, "model"),
    "llama padded": Case(llama, padded_text, "model"),
    "llama tied": Case(lambda: llama(tie_word_embeddings=True), text, "model", short=True),
    "llama checkpointed": Case(checkpointed_llama, text, "model"),
    "qwen2": Case(lambda: transformer("Qwen2ForCausalLM", config="Qwen2Config", **GROUPED), text, "model"),
    "qwen3, batch of the head's size": Case(lambda: transformer("Qwen3ForCausalLM", config="Qwen3Config", head_dim=16, **GROUPED), text, "model"),
    "mistral, sliding window": Case(
        lambda: transformer("MistralForCausalLM", config="MistralConfig", sliding_window=3, **GROUPED), text, "model"),
    "gemma2": Case(lambda: transformer("Gemma2ForCausalLM", config="Gemma2Config", head_dim=16, sliding_window=3, **GROUPED), text, "model"),
    "mixtral": Case(mixtral, text, "model", refused=("transformers::grouped_mm", "experts_implementation='batched_mm'")),
    "mixtral batched": Case(lambda: mixtral(experts_implementation="batched_mm"), text, "model"),
    "gpt2": Case(lambda: transformer("GPT2LMHeadModel", config="GPT2Config", n_layer=1, n_embd=16, n_head=2, vocab_size=VOCABULARY, n_positions=16,
                                     attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0, use_cache=False, bos_token_id=0, eos_token_id=0), text, "model"),
    "bert masked": Case(lambda: bert("BertForMaskedLM"), masked_text, "model"),
    "bert classes": Case(lambda: bert("BertForSequenceClassification", num_labels=CLASSES), classified_text, "model"),
    "t5": Case(lambda: transformer("T5ForConditionalGeneration", config="T5Config", vocab_size=VOCABULARY, d_model=16, d_kv=8, d_ff=32, num_layers=1,
                                   num_decoder_layers=1, num_heads=2, dropout_rate=0.0, use_cache=False, pad_token_id=0,
                                   decoder_start_token_id=0), padded_labels, "model"),
    "whisper": Case(lambda: transformer("WhisperForConditionalGeneration", config="WhisperConfig", vocab_size=VOCABULARY, num_mel_bins=8, d_model=16,
                                        encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
                                        encoder_ffn_dim=32, decoder_ffn_dim=32, dropout=0.0, max_source_positions=16,
                                        max_target_positions=16, use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                        decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None), speech, "model"),
    "vit": Case(lambda: transformer("ViTForImageClassification", config="ViTConfig", hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                                    intermediate_size=32, image_size=32, patch_size=16, num_labels=CLASSES,
                                    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), colors, "model"),
    "lora on llama, *args and **kwargs": Case(adapted_llama, text, "model", short=True),
}

TRAINED = {
    "transposed weights and batch": Case(TransposedWeight, altered(vectors, x=lambda x: x.t().contiguous().t()), short=True),
    "constant buffer": Case(ConstantBuffer, vectors, short=True),
    "tensor attribute": Case(TensorAttribute, vectors),
    "tensor in forward": Case(TensorInForward, vectors),
    "class weights in the loss": Case(Net, vectors, weighted_loss),
    "buffers that change": Case(Buffers, vectors, short=True),
    "a counter that changes always": Case(CountsAlways, vectors, warned="forward() changes 'steps' in evaluation too"),
    "batch of the head's size": Case(HeadNorm, vectors, short=True),
    **{f"attention, batch of {size}": Case(Attention, lambda: {"input_ids": text()["input_ids"], "labels": text()["labels"]}, batch=size)
       for size in (2, 3, 6, 8, 16, 24, 48)},
    "attention, any batch": Case(Attention, lambda: {"input_ids": text()["input_ids"], "labels": text()["labels"]}, batch=16,
                                 options={"dynamic_batch": True}),
    "convolutions, batch at a border of the compiler": Case(Denoise, noisy_images, "mse", short=True),
    "convolutions, any batch": Case(Denoise, noisy_images, "mse", options={"dynamic_batch": True}),
    "diffusion with its own noise": Case(DiffusionUNet, noisy_images, diffusion_loss, tolerance=None),
    "convnext, batch of the channels": Case(ConvNeXtBlock, images),
    "batch norm": Case(BatchNormNet, images),
    "batch norm, any batch": Case(BatchNormNet, images, options={"dynamic_batch": True}),
    "densenet": Case(DenseNet, colors, tolerance=1e-3),
    "dropout": Case(Dropout, vectors, tolerance=None),
    "vae": Case(Vae, vectors, vae_loss, tolerance=None, warned="field 'label' of the batch is not used"),
    "lstm": Case(lambda: Recurrent(nn.LSTM), sequences, short=True),
    "lstm of two layers, both ways": Case(lambda: Recurrent(nn.LSTM, num_layers=2, bidirectional=True), sequences),
    "gru": Case(lambda: Recurrent(nn.GRU), sequences),
    "rnn": Case(lambda: Recurrent(nn.RNN), sequences),
    "graph": Case(Gnn, graphs),
    "one_hot": Case(OneHot, bags),
    "a number out of a tensor": Case(ReadsANumber, vectors, mixes_samples=True),
    "checkpointed": Case(Checkpointed, vectors),
    "encoder layer": Case(Encoder, sequences),
    "forward(**fields)": Case(KeywordsOnly, vectors),
    "*args and **kwargs": Case(lambda: Wrapped(Net()), vectors),
    "spectral and weight norm": Case(Spectral, vectors),
    "embedding bag": Case(Bags, bags),
    "fourier": Case(Fourier, vectors, short=True),
    "double precision": Case(lambda: DoublePrecision().double(), vectors),
    "bfloat16 weights": Case(lambda: LowPrecision().bfloat16(), vectors, tolerance=2e-2),
    "contrastive": Case(Pairs, vectors, contrastive_loss, mixes_samples=True),
    "several labels": Case(Net, vectors, many_labels_loss),
    "regression": Case(lambda: Net(classes=1), regression, "mse"),
    "unused parameters under decay": Case(Unused, vectors, optimizer={"name": "adamw", "lr": 0.01, "weight_decay": 0.5},
                                          warned="the loss does not depend on parameter 'never.weight': it is not trained"),
    "a reused layer": Case(Reused, vectors),
    "an unused field": Case(Net, lambda: {**vectors(), "extra": torch.rand(SAMPLES)}, warned="field 'extra' of the batch"),
    "segments": Case(Checkpointed, vectors, options={"segments": 2}),
    "bf16 autocast": Case(Net, vectors, options={"precision": "bf16"}, tolerance=None),
}

REFUSED = {
    "a buffer that would be lost": Case(LostBuffer, vectors, refused=("forward() changes 'average'", "persistent=True")),
    "an attribute that would be lost": Case(LostAttribute, vectors, refused=("forward() changes 'average'", "register_buffer")),
    "a number that changes": Case(CountsInANumber, vectors, refused=("forward() changes the number 'steps'", "use a buffer")),
    "a number that forward makes": Case(MakesACounter, vectors, refused=("forward() changes the number 'steps'",)),
    "a number in a list": Case(CountsInAList, vectors, refused=("forward() changes the number 'steps[0]'",)),
    "a loss that is a tuple": Case(Net, vectors, lambda model, batch: (model(batch["x"]).mean(), 1),
                                   refused=("the loss function returns a tuple, expected a tensor",)),
    "random numbers of Python": Case(StochasticDepth, vectors, refused=("random numbers of Python or numpy", "torch.rand")),
    "random numbers of numpy": Case(StochasticDepthOfNumpy, vectors, refused=("random numbers of Python or numpy", "torch.rand")),
    "one_hot of unknown width": Case(lambda: OneHot(-1), bags, refused=("F.one_hot without num_classes", "compiled_cases.py", "F.one_hot(x")),
    "labels of [N, 1]": Case(Net, altered(vectors, label=lambda label: label.unsqueeze(1)),
                             refused=("cross_entropy needs logits [B, K] with classes [B]", "'label' is int64 [16, 1]", "reshape 'label'")),
    "labels of int32": Case(Net, altered(vectors, label=lambda label: label.int()), refused=("int64", "'label' is int32 [16]")),
    "labels of float": Case(Net, altered(vectors, label=lambda label: label.float()), refused=("int64", "'label' is float32 [16]")),
    "a label outside": Case(Net, altered(vectors, label=lambda label: label.fill_(5)),
                            refused=("'label' of the example batch has 5, but the model has 3 classes: 0 to 2",)),
    "predictions of another shape": Case(Net, regression, "mse", refused=("mse needs predictions of the shape of 'target'",)),
    "predictions in another order": Case(lambda: nn.Conv2d(3, 3, 1), altered(colors, labels=lambda _: torch.rand(SAMPLES, 32, 32, 3)), "mse",
                                         refused=("the shape of 'labels', which is float32 [16, 32, 32, 3]", "float32 [16, 3, 32, 32]")),
    "integers with mse": Case(lambda: Net(classes=1), altered(regression, target=lambda target: target.long()), "mse",
                              refused=("mse needs a floating-point target, but 'target' is int64 [16]",)),
    "synchronized batch norm": Case(lambda: BatchNormNet(nn.SyncBatchNorm), images, refused=("'norm' is a SyncBatchNorm",)),
    "sparse gradients": Case(lambda: Embedded(sparse=True), bags, refused=("'embedding' is an Embedding with sparse=True",)),
    "a function with a backward pass": Case(OwnBackward, vectors, refused=("the gradient of 'layer.", "torch.autograd.Function")),
    "a hook on a gradient": Case(HookOnGradient, vectors, refused=("the gradient of 'layer.", "hooks on gradients")),
    "a hook on a parameter": Case(HookOnParameter, vectors, refused=("the parameter 'layer.weight' has a hook",)),
    "parameters in the same memory": Case(SameMemory, vectors, refused=("'layer.weight' and 'other.weight' share memory",)),
    "a lazy layer": Case(lambda: nn.LazyLinear(CLASSES), vectors, refused=("'weight' has no shape yet",)),
    "the old weight norm": Case(lambda: nn.utils.weight_norm(nn.Linear(16, CLASSES)), vectors, refused=("torch.nn.utils.parametrizations",)),
    "a custom operator": Case(CustomOperator, vectors, refused=("the operator lockstep_cases::double", "compiled_cases.py:")),
    "an operator of this process": Case(OperatorOfThisProcess, vectors, refused=("the operator quantized::lockstep_cases_double, which is not",)),
    "an operator that torch has in Python": Case(OperatorOfTorchInPython, vectors, refused=("the operator prims::fft_r2c, which is not",)),
    "ctc_loss": Case(lambda: nn.Linear(8, CLASSES), sequences, ctc_loss, refused=("the operator aten._ctc_loss", "no form that can be traced: compute it outside of the loss")),
    "a branch on a tensor": Case(Branch, vectors, refused=("a branch on a tensor", "compiled_cases.py", "if x.mean() > 0")),
    "a batch of one size": Case(FixedRows, vectors, refused=("for batches of any size in evaluation", "compiled_cases.py", "x.reshape(16, 16)")),
}
