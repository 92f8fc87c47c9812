"""The example batch of a task, with the names that Lockstep's datasets give the fields."""

from typing import TYPE_CHECKING

import torch
from torch import nn

from lockstep.compile.losses import IGNORED, Batch
from lockstep.compile.sources import Refused

if TYPE_CHECKING:
    from transformers import PretrainedConfig

DEFAULT_LENGTH = 128  # tokens
DEFAULT_SIDE = 224  # of images, where the config has none
DEFAULT_SECONDS = 1
SAMPLE_RATE = 16000  # of transformers' models of sound waves
FIRST_TOKEN = 3  # smaller ones are usually special


class Example:
    """Draws random values, independently of torch's global seed. `length`: tokens, sound samples or frames, or the side of an
    image; None: default."""

    def __init__(self, model: nn.Module, task: str, batch: int, length: int | None):
        self.model, self.task, self.batch, self.length = model, task, batch, length
        self.config: "PretrainedConfig" = model.config.get_text_config() if task not in SOUND_AND_PICTURES else model.config
        self.generator = torch.Generator().manual_seed(0)

    def make(self) -> Batch:
        if self.task == "image-classification":
            return {"image": self.uniform(self.image_shape()), "label": self.labels()}
        if self.task == "audio-classification":
            return {self.model.main_input_name: self.uniform(self.audio_shape()), "labels": self.labels()}
        tokens = self.tokens()
        if self.task == "causal-lm":
            return {"tokens": tokens, "targets": tokens.roll(-1, 1)}
        mask = torch.ones_like(tokens)
        mask[1:, -1] = 0
        fields = {"input_ids": tokens, "attention_mask": mask}
        if self.task == "sequence-classification":
            return {**self.ended(fields), "labels": self.labels()}
        targets = tokens if self.task != "token-classification" else self.integers(self.config.num_labels, tokens.shape)
        left_out = self.integers(2, tokens.shape).bool() if self.task == "masked-lm" else mask == 0
        left_out[:, 0] = False
        return {**fields, "labels": targets.masked_fill(left_out, IGNORED)}

    def ended(self, fields: Batch) -> Batch:
        """Encoder-decoder models classify at the last token, which must be the end of the sequence."""
        end = getattr(self.config, "eos_token_id", None)
        if getattr(self.config, "is_encoder_decoder", False) and isinstance(end, int):
            fields["input_ids"][:, -1] = end
            fields["attention_mask"][:] = 1
        return fields

    def tokens(self) -> torch.Tensor:
        limit = getattr(self.config, "max_position_embeddings", None)
        if self.length is not None and isinstance(limit, int) and 0 < limit < self.length:
            raise Refused(f"--length {self.length}: config.json has max_position_embeddings {limit}")
        length = self.length or min(DEFAULT_LENGTH, limit if isinstance(limit, int) and limit > 0 else DEFAULT_LENGTH)
        vocabulary = self.config.vocab_size
        first = min(FIRST_TOKEN, vocabulary - 1)
        return first + self.integers(vocabulary - first, (self.batch, length))

    def labels(self) -> torch.Tensor:
        """Numbers, where the model has only one output."""
        classes = self.config.num_labels
        return self.uniform(()) if classes == 1 else self.integers(classes, (self.batch,))

    def image_shape(self) -> tuple[int, ...]:
        of_timm = (getattr(self.config, "pretrained_cfg", None) or {}).get("input_size") or (3, DEFAULT_SIDE, DEFAULT_SIDE)
        size = self.length or getattr(self.config, "image_size", None) or of_timm
        height, width = (size, size) if isinstance(size, int) else tuple(size)[-2:]
        return (getattr(self.config, "num_channels", of_timm[0]), height, width)

    def audio_shape(self) -> tuple[int, ...]:
        """Of a sound wave, or of its spectrum [bins, frames] (Whisper) or [frames, bins]."""
        config = self.config
        if not hasattr(config, "num_mel_bins"):
            return (self.length or DEFAULT_SECONDS * SAMPLE_RATE,)
        if hasattr(config, "max_source_positions"):
            frames = 2 * config.max_source_positions
            if self.length not in (None, frames):
                raise Refused(f"--length {self.length}: this model takes {frames} frames")
            return (config.num_mel_bins, frames)
        return (self.length or getattr(config, "max_length", None) or DEFAULT_LENGTH, config.num_mel_bins)

    def uniform(self, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.rand((self.batch, *shape), generator=self.generator)

    def integers(self, high: int, shape: tuple[int, ...] | torch.Size) -> torch.Tensor:
        return torch.randint(0, high, tuple(shape), generator=self.generator)


SOUND_AND_PICTURES = ("image-classification", "audio-classification")
