"""Small models of transformers with random weights, one of each family, and what they are called with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

WORDS = 99
Inputs = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Family:
    """`model` and `config` are names of classes of transformers, `settings` what the configuration is made with.

    without_gradients: why eager mode's gradients are nothing to be held against.
    """

    model: str
    config: str
    inputs: Callable[[], Inputs]
    settings: dict[str, Any] = field(default_factory=dict)
    without_gradients: str = ""

    def make(self, library: Any) -> torch.nn.Module:
        """Without dropout; biases, norms, statistics and codebooks are not the zeros and ones they begin with."""
        torch.manual_seed(0)
        model = getattr(library, self.model)(getattr(library, self.config)(**self.settings)).eval()
        if getattr(model.config, "use_cache", False):
            model.config.use_cache = False
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.05)
            for buffer in filter(torch.is_floating_point, model.buffers()):
                buffer.add_(torch.rand_like(buffer), alpha=0.05)
        return model


def words(length: int = 16, *, decoder: int = 0) -> Callable[[], Inputs]:
    """Two rows of `length` tokens, and as many of `decoder`."""

    def inputs() -> Inputs:
        more = {"decoder_input_ids": torch.randint(1, WORDS, (2, decoder))} if decoder else {}
        return {"input_ids": torch.randint(1, WORDS, (2, length)), **more}

    return inputs


def pixels(size: int) -> Callable[[], Inputs]:
    return lambda: {"pixel_values": torch.randn(2, 3, size, size)}


def padded_words() -> Inputs:
    return {**words()(), "attention_mask": (torch.arange(16) < torch.tensor([[16], [9]])).long()}


def boxed_words() -> Inputs:
    corner = torch.randint(0, 50, (2, 16, 2))
    return {**words()(), "bbox": torch.cat([corner, corner + 40], -1)}


def words_and_pixels() -> Inputs:
    return {**words(8)(), **pixels(32)()}


def speech() -> Inputs:
    return {"input_values": torch.randn(1, 1600)}


SIZES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
TEXT = {**SIZES, "vocab_size": WORDS}
GROUPED = {**TEXT, "num_key_value_heads": 2}
"""Two heads of keys and values for four of queries."""
EXPERTS = {"num_local_experts": 4, "experts_implementation": "eager"}
"""Four of them, one by one: what takes them all at once has no float64."""
GPT = {"vocab_size": WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4}
IMAGE = {**SIZES, "image_size": 32, "patch_size": 8}
PYRAMID = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
BOTH: dict[str, Any] = {
    "d_model": 32,
    **{f"{part}_{what}": n for part in ("encoder", "decoder") for what, n in (("layers", 2), ("attention_heads", 4))},
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "vocab_size": WORDS,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
"""An encoder and a decoder."""
SPEECH = {
    **SIZES,
    "conv_dim": [16, 16, 16],
    "conv_stride": [5, 2, 2],
    "conv_kernel": [10, 3, 3],
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
    "mask_time_prob": 0.0,
}

FAMILIES: dict[str, Family] = {
    # Encoders of text.
    "ALBERT": Family("AlbertModel", "AlbertConfig", words(), {**TEXT, "embedding_size": 16}),
    "DeBERTa v2": Family(
        "DebertaV2Model",
        "DebertaV2Config",
        words(),
        {**TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8},
    ),
    "DistilBERT": Family(
        "DistilBertModel",
        "DistilBertConfig",
        words(),
        {"vocab_size": WORDS, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
    ),
    "ELECTRA": Family("ElectraModel", "ElectraConfig", words(), {**TEXT, "embedding_size": 16}),
    "FNet": Family(
        "FNetModel",
        "FNetConfig",
        words(),
        {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64},
    ),
    "Funnel": Family(
        "FunnelModel",
        "FunnelConfig",
        words(),
        {"vocab_size": WORDS, "block_sizes": [1, 1], "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 64},
    ),
    "LayoutLM": Family("LayoutLMModel", "LayoutLMConfig", boxed_words, TEXT),
    "Longformer": Family("LongformerModel", "LongformerConfig", words(32), {**TEXT, "attention_window": 8}),
    "RoBERTa": Family(
        "RobertaForSequenceClassification", "RobertaConfig", padded_words, {**TEXT, "max_position_embeddings": 40}
    ),
    "XLNet": Family(
        "XLNetModel", "XLNetConfig", words(), {"vocab_size": WORDS, "d_model": 32, "n_layer": 2, "n_head": 4}
    ),
    # Decoders of text.
    "BLOOM": Family(
        "BloomForCausalLM", "BloomConfig", words(), {"vocab_size": WORDS, "hidden_size": 32, "n_layer": 2, "n_head": 4}
    ),
    "Falcon": Family(
        "FalconForCausalLM",
        "FalconConfig",
        words(),
        {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    ),
    "Gemma 2": Family("Gemma2ForCausalLM", "Gemma2Config", words(), {**GROUPED, "head_dim": 8}),
    "Gemma 3": Family("Gemma3ForCausalLM", "Gemma3TextConfig", words(), {**GROUPED, "head_dim": 8}),
    "GPT BigCode": Family("GPTBigCodeForCausalLM", "GPTBigCodeConfig", words(), GPT),
    "GPT-J": Family("GPTJForCausalLM", "GPTJConfig", words(), {**GPT, "rotary_dim": 4}),
    "GPT-NeoX": Family("GPTNeoXForCausalLM", "GPTNeoXConfig", words(), TEXT),
    "Granite MoE": Family("GraniteMoeForCausalLM", "GraniteMoeConfig", words(), {**GROUPED, **EXPERTS}),
    "Mamba": Family(
        "MambaForCausalLM",
        "MambaConfig",
        words(),
        {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4},
    ),
    "Mixtral": Family("MixtralForCausalLM", "MixtralConfig", words(), {**GROUPED, **EXPERTS}),
    "OLMo 2": Family("Olmo2ForCausalLM", "Olmo2Config", words(), TEXT),
    "OPT": Family(
        "OPTForCausalLM",
        "OPTConfig",
        words(),
        {
            "vocab_size": WORDS,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "ffn_dim": 64,
            "max_position_embeddings": 40,
            "word_embed_proj_dim": 32,
        },
    ),
    "Phi": Family("PhiForCausalLM", "PhiConfig", words(), TEXT),
    "Phi 3": Family("Phi3ForCausalLM", "Phi3Config", words(), {**GROUPED, "pad_token_id": 0}),
    "Qwen 2": Family("Qwen2ForCausalLM", "Qwen2Config", words(), GROUPED),
    "Qwen 3": Family("Qwen3ForCausalLM", "Qwen3Config", words(), {**GROUPED, "head_dim": 8}),
    "RWKV": Family(
        "RwkvModel",
        "RwkvConfig",
        words(6),
        {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "attention_hidden_size": 32},
    ),
    # Encoders with a decoder.
    "BART": Family("BartModel", "BartConfig", words(decoder=7), BOTH),
    "M2M100": Family("M2M100Model", "M2M100Config", words(decoder=7), BOTH),
    "T5": Family(
        "T5Model",
        "T5Config",
        words(decoder=7),
        # With a distance of 128, the default, logarithms that are cut to integers are integers but for rounding.
        {
            "vocab_size": WORDS,
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 64,
            "num_layers": 2,
            "num_heads": 4,
            "relative_attention_max_distance": 100,
        },
    ),
    "Whisper": Family(
        "WhisperModel",
        "WhisperConfig",
        lambda: {
            "input_features": torch.randn(1, 20, 60),
            "decoder_input_ids": torch.randint(1, WORDS, (1, 5)),
        },
        {**BOTH, "num_mel_bins": 20, "max_source_positions": 30, "max_target_positions": 20},
    ),
    # Images.
    "BEiT": Family("BeitModel", "BeitConfig", pixels(32), {**IMAGE, "use_relative_position_bias": True}),
    "CLIP": Family(
        "CLIPModel",
        "CLIPConfig",
        words_and_pixels,
        {"text_config": {**TEXT, "max_position_embeddings": 20, "eos_token_id": WORDS - 1}, "vision_config": IMAGE},
    ),
    "ConvNeXt v2": Family("ConvNextV2Model", "ConvNextV2Config", pixels(64), PYRAMID),
    "DeiT": Family("DeiTModel", "DeiTConfig", pixels(32), IMAGE),
    "DINOv2": Family("Dinov2Model", "Dinov2Config", pixels(28), {**SIZES, "image_size": 28, "patch_size": 7}),
    "DPT": Family(
        "DPTForDepthEstimation",
        "DPTConfig",
        pixels(32),
        {
            **IMAGE,
            "num_hidden_layers": 4,
            "backbone_out_indices": [0, 1, 2, 3],
            "neck_hidden_sizes": [8, 16, 24, 32],
            "fusion_hidden_size": 16,
        },
        without_gradients="zeros for parameters that nobody reads, by any backend; None in eager",
    ),
    "LeViT": Family(
        "LevitModel",
        "LevitConfig",
        pixels(64),
        {
            "image_size": 64,
            "hidden_sizes": [16, 24, 32],
            "num_attention_heads": [2, 3, 4],
            "depths": [1, 1, 1],
            "key_dim": [8, 8, 8],
        },
    ),
    "MobileViT": Family(
        "MobileViTModel",
        "MobileViTConfig",
        pixels(64),
        {
            "image_size": 64,
            "hidden_sizes": [16, 24, 32],
            "neck_hidden_sizes": [8, 16, 24, 32, 40, 48, 64],
            "num_attention_heads": 4,
        },
    ),
    "PoolFormer": Family("PoolFormerModel", "PoolFormerConfig", pixels(64), PYRAMID),
    "PVT v2": Family("PvtV2Model", "PvtV2Config", pixels(64), {**PYRAMID, "num_attention_heads": [1, 2, 2, 4]}),
    "ResNet": Family("ResNetModel", "ResNetConfig", pixels(64), {**PYRAMID, "embedding_size": 8}),
    "SegFormer": Family(
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        pixels(64),
        {**PYRAMID, "num_attention_heads": [1, 2, 2, 4], "decoder_hidden_size": 16, "num_labels": 5},
    ),
    "SigLIP": Family("SiglipVisionModel", "SiglipVisionConfig", pixels(32), IMAGE),
    "Swin v2": Family(
        "Swinv2Model",
        "Swinv2Config",
        pixels(32),
        {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4},
    ),
    "VideoMAE": Family(
        "VideoMAEModel",
        "VideoMAEConfig",
        lambda: {"pixel_values": torch.randn(1, 4, 3, 32, 32)},
        {**IMAGE, "num_frames": 4},
    ),
    "ViT MAE": Family("ViTMAEModel", "ViTMAEConfig", lambda: {**pixels(32)(), "noise": torch.rand(2, 16)}, IMAGE),
    "YOLOS": Family(
        "YolosModel", "YolosConfig", pixels(32), {**IMAGE, "image_size": [32, 32], "num_detection_tokens": 5}
    ),
    # Sound and series.
    "AST": Family(
        "ASTModel",
        "ASTConfig",
        lambda: {"input_values": torch.randn(2, 48, 32)},
        {**SIZES, "max_length": 48, "num_mel_bins": 32},
    ),
    "EnCodec": Family(
        "EncodecModel",
        "EncodecConfig",
        lambda: {"input_values": torch.randn(1, 1, 640)},
        {
            "num_filters": 4,
            "hidden_size": 16,
            "codebook_dim": 16,
            "codebook_size": 16,
            "upsampling_ratios": [4, 4],
        },
        without_gradients="which code is the nearest depends on rounding",
    ),
    "HuBERT": Family("HubertModel", "HubertConfig", speech, SPEECH),
    "PatchTST": Family(
        "PatchTSTModel",
        "PatchTSTConfig",
        lambda: {"past_values": torch.randn(2, 32, 3)},
        {
            "num_input_channels": 3,
            "context_length": 32,
            "patch_length": 8,
            "d_model": 16,
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "ffn_dim": 32,
        },
    ),
    "wav2vec 2": Family("Wav2Vec2Model", "Wav2Vec2Config", speech, SPEECH),
}
