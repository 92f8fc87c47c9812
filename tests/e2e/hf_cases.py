"""A table of tiny model directories of transformers, timm and diffusers, with their data, that `lockstep-compile hf:DIR` compiles."""

from dataclasses import dataclass
from typing import Callable

import torch

BATCH = 4
SAMPLES = 32
CLASSES = 3
VOCABULARY = 24
TOKENS = 8


@dataclass
class Case:
    """`model`, `config`: names of transformers' classes; no config: a class of diffusers, with a `scheduler`. `data`: its fields, of SAMPLES
    samples. `changes`: NAME=VALUE.

    `refused`: parts of the error message.
    """

    model: str
    config: str
    options: dict
    data: Callable[[], dict[str, torch.Tensor]]
    refused: tuple[str, ...] = ()
    short: bool = False  # in the short form of the test
    changes: tuple[str, ...] = ()
    scheduler: str = "DDPMScheduler"


# Data.


def tokens():
    return torch.randint(3, VOCABULARY, (SAMPLES, TOKENS))


def windows():
    """As of the dataset "tokens"."""
    text = torch.randint(0, VOCABULARY, (SAMPLES, TOKENS + 1))
    return {"tokens": text[:, :-1].contiguous(), "targets": text[:, 1:].contiguous()}


def padded():
    ids = tokens()
    mask = torch.arange(TOKENS) < torch.randint(2, TOKENS + 1, (SAMPLES, 1))
    return {"input_ids": ids.masked_fill(~mask, 0), "attention_mask": mask.long()}


def next_tokens():
    batch = padded()
    return {**batch, "labels": batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)}


def masked():
    batch = padded()
    chosen = (torch.rand(SAMPLES, TOKENS) < 0.3) & (batch["attention_mask"] == 1)
    chosen[:, 0] = True
    return {**batch, "input_ids": batch["input_ids"].masked_fill(chosen, 2), "labels": batch["input_ids"].masked_fill(~chosen, -100)}


def classified():
    return {**padded(), "labels": torch.randint(0, CLASSES, (SAMPLES,))}


def ended():
    """The last token is the end of the sequence."""
    ids = tokens()
    ids[:, -1] = 2
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.randint(0, CLASSES, (SAMPLES,))}


def tagged():
    batch = padded()
    return {**batch, "labels": torch.randint(0, CLASSES, (SAMPLES, TOKENS)).masked_fill(batch["attention_mask"] == 0, -100)}


def pairs():
    return {**padded(), "labels": next_tokens()["labels"]}


def images(size=32):
    return {"image": torch.rand(SAMPLES, 3, size, size), "label": torch.randint(0, CLASSES, (SAMPLES,))}


def noisy_images():
    """Of numbers from -1 to 1, with their noise."""
    return {"image": 2 * torch.rand(SAMPLES, 1, 8, 8) - 1, "noise": torch.randn(SAMPLES, 1, 8, 8),
            "timestep": torch.randint(0, 1000, (SAMPLES,)), "label": torch.randint(0, CLASSES, (SAMPLES,))}


def noisy_images_without_class():
    """The class that replaces dropped ones, so that dropping classes at random changes nothing."""
    return {**noisy_images(), "label": torch.full((SAMPLES,), CLASSES)}


def noisy_images_with_text():
    """The output of a text encoder: a vector for each of three tokens."""
    return {**{name: tensor for name, tensor in noisy_images().items() if name != "label"},
            "encoder_hidden_states": torch.randn(SAMPLES, 3, 8)}


def noisy_images_with_pooled_text():
    return {**noisy_images_with_text(), "pooled_projections": torch.randn(SAMPLES, 8)}


def waves():
    return {"input_values": torch.randn(SAMPLES, 400), "labels": torch.randint(0, CLASSES, (SAMPLES,))}


def spectra():
    return {"input_values": torch.randn(SAMPLES, 24, 16), "labels": torch.randint(0, CLASSES, (SAMPLES,))}


def mels():
    return {"input_features": torch.randn(SAMPLES, 8, 16), "labels": torch.randint(0, CLASSES, (SAMPLES,))}


# Models of one layer, without dropout.

SMALL = {"vocab_size": VOCABULARY, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
         "max_position_embeddings": 16, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPED = {**SMALL, "num_key_value_heads": 1}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
BERT = {**SMALL, **STILL, "num_labels": CLASSES}
VISION = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 32,
          "patch_size": 16, "num_labels": CLASSES, **STILL}
EXPERTS = {"num_experts_per_tok": 1, "output_router_logits": True}

DECODERS = {
    "llama": Case("LlamaForCausalLM", "LlamaConfig", {**GROUPED, "tie_word_embeddings": True}, windows, short=True),
    "llama padded": Case("LlamaForCausalLM", "LlamaConfig", GROUPED, next_tokens),
    "qwen2": Case("Qwen2ForCausalLM", "Qwen2Config", GROUPED, windows),
    "qwen3": Case("Qwen3ForCausalLM", "Qwen3Config", {**GROUPED, "head_dim": 8}, windows),
    "mistral": Case("MistralForCausalLM", "MistralConfig", {**GROUPED, "sliding_window": 4}, windows),
    "gemma2": Case("Gemma2ForCausalLM", "Gemma2Config", {**GROUPED, "head_dim": 8, "sliding_window": 4}, windows),
    "gpt2": Case("GPT2LMHeadModel", "GPT2Config", {"vocab_size": VOCABULARY, "n_layer": 1, "n_embd": 16, "n_head": 2, "n_positions": 16,
                 "attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "bos_token_id": 1, "eos_token_id": 2}, windows),
    "gpt_neox": Case("GPTNeoXForCausalLM", "GPTNeoXConfig", {**SMALL, "rope_pct": 0.5}, windows),
    "opt": Case("OPTForCausalLM", "OPTConfig", {"vocab_size": VOCABULARY, "hidden_size": 16, "ffn_dim": 32, "num_hidden_layers": 1,
                "num_attention_heads": 2, "max_position_embeddings": 16, "word_embed_proj_dim": 16, "dropout": 0.0}, windows),
    "phi3": Case("Phi3ForCausalLM", "Phi3Config", GROUPED, windows),
    "mixtral": Case("MixtralForCausalLM", "MixtralConfig", {**GROUPED, **EXPERTS, "num_local_experts": 2}, next_tokens),
    "qwen3_moe": Case("Qwen3MoeForCausalLM", "Qwen3MoeConfig", {**GROUPED, **EXPERTS, "num_experts": 2, "moe_intermediate_size": 16,
                      "head_dim": 8}, windows),
    "mamba": Case("MambaForCausalLM", "MambaConfig", {"vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 1,
                  "state_size": 4}, windows),
    "bloom": Case("BloomForCausalLM", "BloomConfig", {"vocab_size": VOCABULARY, "hidden_size": 16, "n_layer": 1, "n_head": 2,
                  "hidden_dropout": 0.0, "attention_dropout": 0.0}, windows),
}

ENCODERS = {
    "bert": Case("BertForSequenceClassification", "BertConfig", BERT, classified),
    "bert masked": Case("BertForMaskedLM", "BertConfig", BERT, masked),
    "roberta": Case("RobertaForMaskedLM", "RobertaConfig", {**BERT, "pad_token_id": 1, "bos_token_id": 0}, masked),
    "distilbert": Case("DistilBertForTokenClassification", "DistilBertConfig", {"vocab_size": VOCABULARY, "dim": 16, "hidden_dim": 32,
                       "n_layers": 1, "n_heads": 2, "max_position_embeddings": 16, "dropout": 0.0, "attention_dropout": 0.0,
                       "num_labels": CLASSES}, tagged, short=True),
    "modernbert": Case("ModernBertForMaskedLM", "ModernBertConfig", {**SMALL, "local_attention": 4, "cls_token_id": 1, "sep_token_id": 2,
                       "attention_dropout": 0.0, "embedding_dropout": 0.0, "mlp_dropout": 0.0}, masked),
    "electra": Case("ElectraForTokenClassification", "ElectraConfig", {**BERT, "embedding_size": 16}, tagged),
    "deberta-v2": Case("DebertaV2ForSequenceClassification", "DebertaV2Config", {**BERT, "pooler_hidden_size": 16, "pooler_dropout": 0.0,
                       "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0}, classified),
    "longformer": Case("LongformerForSequenceClassification", "LongformerConfig", {**BERT, "attention_window": [4]}, classified, refused=(
        "cannot be exported: its Python control flow depends on tensor data", "(modeling_longformer.py:")),
    "albert": Case("AlbertForMaskedLM", "AlbertConfig", {**BERT, "embedding_size": 16}, masked),
}

BART = {"vocab_size": VOCABULARY, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 16, "dropout": 0.0,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": None}
ENCODER_DECODERS = {
    "t5": Case("T5ForConditionalGeneration", "T5Config", {"vocab_size": VOCABULARY, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1,
               "num_decoder_layers": 1, "num_heads": 2, "dropout_rate": 0.0, "pad_token_id": 0, "eos_token_id": 2,
               "decoder_start_token_id": 0}, pairs),
    "bart": Case("BartForConditionalGeneration", "BartConfig", BART, pairs),
    "bart classes": Case("BartForSequenceClassification", "BartConfig", {**BART, "num_labels": CLASSES}, ended),
}

VISIONS = {
    "vit": Case("ViTForImageClassification", "ViTConfig", VISION, images),
    "convnext": Case("ConvNextForImageClassification", "ConvNextConfig", {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2,
                     "image_size": 32, "num_labels": CLASSES}, images),
    "swin": Case("SwinForImageClassification", "SwinConfig", {"embed_dim": 8, "depths": [2, 1], "num_heads": [2, 2], "window_size": 4,
                 "image_size": 32, "patch_size": 4, "num_labels": CLASSES, "drop_path_rate": 0.0, **STILL}, images),
    "dinov2": Case("Dinov2ForImageClassification", "Dinov2Config", {**VISION, "mlp_ratio": 2}, images),
    "resnet": Case("ResNetForImageClassification", "ResNetConfig", {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1],
                   "num_labels": CLASSES, "layer_type": "basic"}, images),
    "timm starnet": Case("TimmWrapperForImageClassification", "TimmWrapperConfig", {"architecture": "starnet_s050", "num_labels": CLASSES,
                         "model_args": {"base_dim": 8, "depths": [1]}}, images),
    # With smaller images, batch norms over few values amplify rounding: Python in float32 differs from Python in float64. With ReLU,
    # so does an element close to 0.
    "timm resnet": Case("TimmWrapperForImageClassification", "TimmWrapperConfig", {"architecture": "resnet10t", "num_labels": CLASSES,
                        "model_args": {"channels": [8, 16, 16, 16], "stem_width": 8, "act_layer": "silu"}}, lambda: images(64),
                        short=True),
    "timm vit": Case("TimmWrapperForImageClassification", "TimmWrapperConfig", {"architecture": "vit_tiny_patch16_224",
                     "num_labels": CLASSES, "model_args": {"img_size": 32, "embed_dim": 16, "depth": 1, "num_heads": 2}}, images,
                     short=True),
    "timm convnext": Case("TimmWrapperForImageClassification", "TimmWrapperConfig", {"architecture": "convnext_atto", "num_labels": CLASSES,
                          "model_args": {"depths": [1, 1, 1, 1], "dims": [8, 8, 8, 16]}}, images),
    "beit": Case("BeitForImageClassification", "BeitConfig", {**VISION, "drop_path_rate": 0.0}, images),
}

AUDIO = {
    "wav2vec2": Case("Wav2Vec2ForSequenceClassification", "Wav2Vec2Config", {**{k: v for k, v in SMALL.items() if "token" not in k},
                     "hidden_dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "feat_proj_dropout": 0.0,
                     "final_dropout": 0.0, "conv_dim": [8, 8], "conv_stride": [5, 4], "conv_kernel": [10, 4],
                     "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
                     "classifier_proj_size": 8, "num_labels": CLASSES}, waves),
    "ast": Case("ASTForAudioClassification", "ASTConfig", {**{k: v for k, v in VISION.items() if k != "image_size"}, "patch_size": 8,
                "max_length": 24, "num_mel_bins": 16, "frequency_stride": 8, "time_stride": 8}, spectra),
    "whisper": Case("WhisperForAudioClassification", "WhisperConfig", {"vocab_size": VOCABULARY, "num_mel_bins": 8, "d_model": 16,
                    "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
                    "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "dropout": 0.0, "max_source_positions": 8,
                    "max_target_positions": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
                    "decoder_start_token_id": 1, "classifier_proj_size": 8, "num_labels": CLASSES}, mels),
}

DENOISERS = {
    "unet": Case("UNet2DModel", "", {"sample_size": 8, "in_channels": 1, "out_channels": 1, "layers_per_block": 1,
                 "block_out_channels": [8, 8], "norm_num_groups": 4, "attention_head_dim": 4, "num_class_embeds": CLASSES,
                 "down_block_types": ["DownBlock2D", "DownBlock2D"], "up_block_types": ["UpBlock2D", "UpBlock2D"]}, noisy_images, short=True),
    "dit": Case("DiTTransformer2DModel", "", {"sample_size": 8, "patch_size": 2, "in_channels": 1, "num_layers": 2, "num_attention_heads": 2,
                "attention_head_dim": 4, "num_embeds_ada_norm": CLASSES}, noisy_images_without_class),
}

ATTENDED = {"sample_size": 8, "in_channels": 1, "out_channels": 1, "attention_head_dim": 4}

DENOISERS |= {
    "sd3": Case("SD3Transformer2DModel", "", {**ATTENDED, "patch_size": 2, "num_layers": 2, "num_attention_heads": 2, "joint_attention_dim": 8,
                "caption_projection_dim": 8, "pooled_projection_dim": 8, "pos_embed_max_size": 8}, noisy_images_with_pooled_text,
                scheduler="FlowMatchEulerDiscreteScheduler"),
    "unet with text": Case("UNet2DConditionModel", "", {**ATTENDED, "layers_per_block": 1, "block_out_channels": [8, 8], "norm_num_groups": 4,
                           "cross_attention_dim": 8, "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
                           "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"]}, noisy_images_with_text),
}

CASES = {**DECODERS, **ENCODERS, **ENCODER_DECODERS, **VISIONS, **AUDIO, **DENOISERS}


def build(case):
    import transformers

    torch.manual_seed(1)
    if not case.config:
        import diffusers

        return getattr(diffusers, case.model)(**case.options)
    model = getattr(transformers, case.model)(getattr(transformers, case.config)(**case.options))
    if case.config == "TimmWrapperConfig":  # transformers draws convolutions with 0.02, and batch norms then amplify rounding
        import timm

        own = timm.create_model(case.options["architecture"], num_classes=CLASSES, **case.options["model_args"])
        model.timm_model.load_state_dict(own.state_dict())
    return model


def data_of(case):
    torch.manual_seed(0)
    return case.data()


def scheduler_of(case):
    import diffusers

    return getattr(diffusers, case.scheduler)()


def save(case, directory):
    model = build(case)
    if case.config == "TimmWrapperConfig":  # as timm writes it
        import timm

        timm.models.save_for_hf(model.timm_model, directory, model_args=case.options["model_args"], safe_serialization=True)
    else:
        model.save_pretrained(directory)
    if not case.config:
        scheduler_of(case).save_pretrained(directory)
    return directory


def compile_here(capsys, *arguments):
    """Returns the exit code and the lines of both streams."""
    from lockstep.compile.command_line import main

    code = main([*map(str, arguments)])
    shown = capsys.readouterr()
    return code, shown.out.splitlines(), shown.err.splitlines()


def llama(directory):
    return save(CASES["llama"], directory / "hf")
