"""The check of `make lint` for what is private to PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.private_torch import DOOR, main, private_names


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import torch._dynamo", "torch._dynamo"),
        ("import torch._inductor.config as c", "torch._inductor.config"),
        ("from torch._ops import OpOverload", "torch._ops.OpOverload"),
        ("from torch import _C", "torch._C"),
        ("from torch.fx.experimental.proxy_tensor import make_fx", "torch.fx.experimental.proxy_tensor.make_fx"),
        ("from torch.fx import experimental", "torch.fx.experimental"),
        ("import torch\ntorch._dynamo.config.patch(x=1)", "torch._dynamo"),
        ("import torch as t\nt._C.f()", "torch._C"),
        ("from torch import utils\nutils._pytree.tree_map", "torch.utils._pytree"),
        ("from torch import autograd\nautograd._profiler_enabled", "torch.autograd._profiler_enabled"),
        ('import torch\ngetattr(torch.autograd, "_profiler_enabled")', "torch.autograd._profiler_enabled"),
        ('import importlib\nimportlib.import_module("torch._C._nn")', "torch._C._nn"),
        ("x._version", "._version"),
        ("op.target._schema.returns", "._schema"),
        ('hasattr(call, "_boxed_call")', "._boxed_call"),
    ],
)
def test_what_is_private_is_found(source: str, name: str) -> None:
    assert [found for _, found in private_names(source)] == [name]


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.ops.aten._softmax.default",
        "import torch\ntorch.__version__, torch.nn.functional.relu",
        "from torch.fx import GraphModule",
        "from fpga_dynamo._native import fingerprints",
        "self._base._graph",
        '"torch._dynamo.reset() has it compiled again"',
    ],
)
def test_what_is_public_or_not_pytorchs_is_let_pass(source: str) -> None:
    assert list(private_names(source)) == []


def test_only_the_door_may_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (DOOR, (DOOR[0], "ir")):
        path = tmp_path.joinpath(*folder, "names.py")
        path.parent.mkdir(parents=True)
        path.write_text("import torch._guards\n")
    assert main([DOOR[0]]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "fpga_dynamo/ir/names.py:1: torch._guards is private to PyTorch; its place is fpga_dynamo/torch_internals"
    ]
