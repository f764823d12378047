"""A PyTorch that is not as it is known: what depends on the difference is done without, and answers are the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo import convert_frame, eval_frame
from torch._functorch._aot_autograd import runtime_wrappers, schemas
from torch._guards import TracingContext

from fpga_dynamo._native import direct_totals
from fpga_dynamo.frontend.frames import observe_gaps
from fpga_dynamo.tools import doctor
from fpga_dynamo.torch_internals import aot, frames, tensors, versions
from tests.backend.backend_kit import Net, assert_same_answer, counting, image, mlp, on_card

NETWORKS = {"MLP": (mlp(8, 16, 4), torch.randn(2, 8)), "CNN": (Net(), image())}


def direct_calls_of_three(model: Callable[..., Any], x: torch.Tensor) -> int:
    """Of three calls in a row after the first, all of which must give eager mode's answer."""
    compiled = on_card(model)
    with torch.no_grad():
        compiled(x)
    before = direct_totals()[0]
    for _ in range(3):
        assert_same_answer(compiled, model, x)
    return int(direct_totals()[0] - before)


def found() -> list[str]:
    return [text for difference in versions.differences() for text in difference.found]


def test_this_version_is_supported() -> None:
    """Whatever is installed: the answers are right without, so nothing else fails where a new version lacks support."""
    assert found() == []
    assert versions.is_tested(torch.__version__)
    assert versions.describe() is None


@pytest.mark.parametrize("name", NETWORKS)
def test_calls_are_direct(name: str) -> None:
    model, x = NETWORKS[name]
    assert direct_calls_of_three(model.eval(), x) == 3, found()


@pytest.mark.parametrize("name", NETWORKS)
def test_traces_are_cached(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FPGA_DYNAMO_CACHE", str(tmp_path))
    monkeypatch.setenv("FPGA_DYNAMO_PROGRAM_CACHE", "64")
    model, x = NETWORKS[name]
    for loaded in (0, 1):
        torch._dynamo.reset()
        with counting() as grown:
            assert_same_answer(on_card(model.eval()), model, x)
        assert grown["traces_loaded"] == loaded, found()


@pytest.mark.parametrize("record", ["ViewAndMutationMeta", "InputAliasInfo", "OutputAliasInfo", "PlainTensorMeta"])
def test_a_new_field_keeps_calls_on_the_long_way(record: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = getattr(schemas, record)
    newer = make_dataclass(record, ["sparse"], bases=(known,), kw_only=True, frozen=known.__dataclass_params__.frozen)
    monkeypatch.setattr(schemas, record, newer)
    assert found() == [f"AOTAutograd's {record} has the new field sparse"]
    assert "direct calls and the cache of traces are off" in str(versions.describe())
    assert direct_calls_of_three(Net().eval(), image()) == 0


def test_a_new_wrapper_keeps_calls_on_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    newer = type("SparseWrapper", (schemas.CompilerWrapper,), {})
    monkeypatch.setattr(runtime_wrappers, "SparseWrapper", newer, raising=False)
    assert found() == ["AOTAutograd has the new wrapper SparseWrapper"]
    assert direct_calls_of_three(Net().eval(), image()) == 0


def record_of_a_graph() -> Any:
    """AOTAutograd's record of a graph that asks for nothing at run time."""
    records: list[Any] = []

    def compiler(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        context = TracingContext.get()
        records.append(context.fw_metadata)
        return gm.forward

    with torch.no_grad():
        backend = aot.aot_autograd(fw_compiler=compiler, inference_compiler=compiler)
        torch.compile(lambda x: x.sin() + 1, backend=backend)(torch.randn(3))
    return records[0]


ASKS = {
    "wait for an input (2.13)": (lambda record: record, "act_input_indices", [0]),
    "wait for an input": (lambda record: record, "act_input_paths", [(0, ())]),
    "effects": (lambda record: record, "tokens", {"print": torch.ones(1)}),
    "other memory": (lambda record: record.input_info[0], "mutation_is_shallow_copy_data", True),
    "a changed input": (lambda record: record.input_info[0], "mutates_data", True),
    "a symbolic size": (lambda record: record.subclass_inp_meta[0], "size_symbol_placeholders", (False, True)),
    "a symbolic stride": (
        lambda record: record.subclass_fw_graph_out_meta[0],
        "stride_symbol_placeholders",
        (True, False),
    ),
}


@pytest.mark.parametrize("what", ASKS)
def test_a_graph_that_asks_for_something_at_run_time_is_not_plain(what: str) -> None:
    """Also where the running version has no such field: the record is given one."""
    record = record_of_a_graph()
    assert aot.facts_of(record).plain
    owner, name, value = ASKS[what]
    object.__setattr__(owner(record), name, value)  # some records are frozen
    assert not aot.facts_of(record).plain


def test_sizes_none_of_which_is_symbolic_ask_for_nothing() -> None:
    record = record_of_a_graph()
    record.subclass_inp_meta[0].size_symbol_placeholders = (False, False)
    assert aot.facts_of(record).plain


@pytest.mark.parametrize("name", ["_TensorGuards", "empty_strided"])
def test_without_guards_or_allocation_calls_are_not_direct(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, name, None)
    assert len(found()) == 1
    assert direct_calls_of_three(Net().eval(), image()) == 0


def test_guards_that_pass_all_tensors_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lenient:
        def __init__(self, *tensors: torch.Tensor, **dims: Any) -> None: ...

        def check(self, *tensors: torch.Tensor) -> bool:
            return True

    monkeypatch.setattr(tensors, "_TensorGuards", Lenient)
    assert found() == ["TensorGuards does not guard tensors as it did"]
    assert direct_calls_of_three(Net().eval(), image()) == 0


def with_a_break(x: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x)
    torch._dynamo.graph_break()
    return torch.relu(y - 1)


def test_frames_are_converted_as_pytorch_does_where_a_name_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert_frame, "catch_errors_wrapper", convert_frame.catch_errors_wrapper.__wrapped__)  # type: ignore[attr-defined]
    monkeypatch.setattr(eval_frame, "_optimize_catch_errors", eval_frame._optimize_catch_errors.__wrapped__)  # type: ignore[attr-defined]
    monkeypatch.delattr(eval_frame, "innermost_backend")
    monkeypatch.delattr(convert_frame, "innermost_backend")
    before = convert_frame.catch_errors_wrapper
    frames.install(with_a_break, with_a_break, lambda arguments: frames.Observer())
    assert convert_frame.catch_errors_wrapper is before
    assert found() == ["there is no torch._dynamo.eval_frame.innermost_backend"]


def test_a_recurrent_layer_s_reason_in_other_words_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_RECURRENT", "recurrent layer")
    assert found() == ["Dynamo's VariableBuilder.wrap_module has no message with 'recurrent layer'"]


def test_without_the_hook_breaks_have_no_reason_and_answers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert_frame, "catch_errors_wrapper", convert_frame.catch_errors_wrapper.__wrapped__)  # type: ignore[attr-defined]
    monkeypatch.setattr(eval_frame, "_optimize_catch_errors", eval_frame._optimize_catch_errors.__wrapped__)  # type: ignore[attr-defined]
    with observe_gaps() as gaps:
        assert_same_answer(on_card(with_a_break), with_a_break, torch.randn(8, 16))
    assert gaps == []


def test_another_version_is_told_once_and_by_the_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "TESTED", ("1.0", "1.1"))
    versions.warn_once.cache_clear()
    with pytest.warns(RuntimeWarning, match=r"tested with torch 1\.0 or 1\.1, not 2\."):
        assert_same_answer(on_card(torch.relu), torch.relu, torch.randn(8, 16))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert_same_answer(on_card(torch.sigmoid), torch.sigmoid, torch.randn(8, 16))
    (finding,) = (finding for finding in doctor.examine() if finding.subject == "PyTorch")
    assert finding.state == doctor.MISSING and "install torch 1.0 or 1.1" in finding.remedy


@pytest.mark.parametrize(
    ("version", "tested"),
    [("2.13.0", True), ("2.13.1+cpu", True), ("2.15.0", True), ("2.1.3", False), ("2.16.0a0+git1234", False)],
)
def test_the_minor_version_decides(version: str, tested: bool) -> None:
    assert versions.is_tested(version) is tested
