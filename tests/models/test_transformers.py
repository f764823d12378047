"""Models of transformers with random weights: error, offload and launches, and text generated with a KV cache.

`make transformers` installs the library and prints a line for each; without it nothing here runs.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import fpga_dynamo
from fpga_dynamo.testing.reference import assert_close_to_eager

pytestmark = pytest.mark.slow

FACTOR = 4.0  # of eager float32's own error against float64
TOKENS = 200
SIZES: dict[str, Any] = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def tokens(length: int = 16) -> torch.Tensor:
    return torch.randint(0, TOKENS, (2, length))


def bert(t: Any) -> tuple[Any, dict[str, Any]]:
    config = t.BertConfig(vocab_size=TOKENS, max_position_embeddings=64, **SIZES)
    mask = (torch.arange(16) < torch.tensor([[16], [11]])).long()
    return t.BertModel(config), {"input_ids": tokens(), "attention_mask": mask}


def gpt2(t: Any) -> tuple[Any, dict[str, Any]]:
    model = t.GPT2LMHeadModel(t.GPT2Config(vocab_size=TOKENS, n_positions=64, n_embd=64, n_layer=2, n_head=4))
    return model, {"input_ids": tokens(), "use_cache": False}


def llama(t: Any) -> tuple[Any, dict[str, Any]]:
    """Two heads of keys and values for four of queries, rotary positions."""
    config = t.LlamaConfig(vocab_size=TOKENS, num_key_value_heads=2, max_position_embeddings=64, **SIZES)
    return t.LlamaForCausalLM(config), {"input_ids": tokens(), "use_cache": False}


def vit(t: Any) -> tuple[Any, dict[str, Any]]:
    config = t.ViTConfig(image_size=32, patch_size=8, num_labels=10, **SIZES)
    return t.ViTForImageClassification(config), {"pixel_values": torch.randn(2, 3, 32, 32)}


MODELS: dict[str, tuple[Callable[[Any], tuple[Any, dict[str, Any]]], int]] = {
    "BERT": (bert, 2),
    "GPT-2": (gpt2, 1),
    "Llama": (llama, 1),
    "ViT": (vit, 1),
}
"""How each is made, and the launches that it takes at most."""


def _tensors(output: Any) -> tuple[torch.Tensor, ...]:
    return tuple(leaf for leaf in output.values() if isinstance(leaf, torch.Tensor))


@pytest.mark.parametrize("name", MODELS)
def test_as_exact_as_eager_with_all_products_on_the_card(name: str, library: Any) -> None:
    make, launches = MODELS[name]
    model, inputs = make(library)
    model.eval()
    wide = {
        key: value.double() if value.is_floating_point() else value
        for key, value in inputs.items()
        if key != "use_cache"
    }
    with torch.no_grad():
        mine, theirs = _tensors(torch.compile(model, backend="fpga")(**inputs)), _tensors(model(**inputs))
        exact = _tensors(copy.deepcopy(model).double()(**{**inputs, **wide}))
        explained = fpga_dynamo.explain(model, **inputs)
    errors = assert_close_to_eager(mine, theirs, exact, FACTOR)
    assert explained.mac_offload >= 0.99, str(explained)
    assert explained.pl_launches <= launches, str(explained)
    ratio = max(error.ratio for error in errors)
    print(f"{name}: MACs {explained.mac_offload:.1%}, {explained.pl_launches} launches, error ratio {ratio:.2f}")


HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}
EXPORTED: dict[str, dict[str, Any]] = {
    "Bert": SIZES,
    "Bloom": {"hidden_size": 64, "n_layer": 2, "n_head": 4},
    "DistilBert": {"dim": 64, "hidden_dim": 128, "n_layers": 2, "n_heads": 4},
    "Gemma": SIZES | HEADS | {"head_dim": 16},
    "GPT2": {"n_embd": 64, "n_layer": 2, "n_head": 4},
    "GPTNeoX": SIZES,
    "Llama": SIZES | HEADS,
    "Mistral": SIZES | HEADS,
    "MPNet": SIZES,
    "OPT": SIZES | {"ffn_dim": 128, "word_embed_proj_dim": 64},
    "Qwen2": SIZES | HEADS,
    "Roberta": SIZES,
}
"""The fields of each architecture's configuration."""


class LastHidden(torch.nn.Module):
    """The first output of a transformer without its cache, as torch.export can have it."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model
        self.options = {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(ids, **self.options)[0]


@pytest.mark.parametrize("name", EXPORTED)
def test_an_exported_model_has_no_node_on_the_host(name: str, library: Any) -> None:
    config = getattr(library, f"{name}Config")(vocab_size=TOKENS, **EXPORTED[name])
    model, ids = LastHidden(getattr(library, f"{name}Model")(config).eval()), tokens()
    with torch.no_grad():
        exported = torch.export.export(model, (ids,)).module()
        explained = fpga_dynamo.explain(exported, ids)
        mine, theirs = torch.compile(exported, backend="fpga")(ids), model(ids)
        exact = copy.deepcopy(model).double()(ids)
    assert explained.pl_launches == 1
    assert [node.op for graph in explained.graphs for node in graph.nodes if node.place == "PS"] == []
    assert_close_to_eager((mine,), (theirs,), (exact,), FACTOR)


@pytest.mark.parametrize("cache", [None, "static"])
@pytest.mark.parametrize("make", [gpt2, llama])
def test_generated_text_is_eager_s(make: Callable[..., Any], cache: str | None, library: Any) -> None:
    model, _ = make(library)
    model.eval()
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = None, 0
    how: dict[str, Any] = {"max_new_tokens": 8, "do_sample": False}
    if cache is not None:
        how |= {"cache_implementation": cache, "disable_compile": True}
    prompt = tokens(5)
    expected = model.generate(prompt, **how)
    before = fpga_dynamo.stats()["pl_launches"]
    model.forward = torch.compile(model.forward, backend="fpga")
    assert torch.equal(model.generate(prompt, **how), expected)
    assert fpga_dynamo.stats()["pl_launches"] > before
