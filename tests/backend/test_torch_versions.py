"""A PyTorch that is not as it is known: what hangs on the difference is done without, and answers are the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import make_dataclass
from typing import Any

import pytest
import torch
from torch._dynamo import convert_frame, eval_frame
from torch._functorch._aot_autograd import schemas

from fpga_dynamo._native import direct_totals
from fpga_dynamo.frontend.frames import observe_gaps
from fpga_dynamo.tools import doctor
from fpga_dynamo.torch_internals import frames, tensors, versions
from tests.backend.backend_kit import Net, assert_same_answer, image, on_card


def direct_calls_of_three(model: Callable[..., Any], x: torch.Tensor) -> int:
    """Of three calls in a row after the first, all of which must give eager's answer."""
    compiled = on_card(model)
    with torch.no_grad():
        compiled(x)
    before = direct_totals()[0]
    for _ in range(3):
        assert_same_answer(compiled, model, x)
    return int(direct_totals()[0] - before)


def found() -> list[str]:
    return [text for difference in versions.differences() for text in difference.found]


def test_the_tested_version_is_as_it_is_known() -> None:
    assert versions.is_tested(torch.__version__) and found() == []
    assert versions.describe() is None
    assert direct_calls_of_three(Net().eval(), image()) == 3


def test_a_new_field_keeps_calls_on_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    newer = make_dataclass("ViewAndMutationMeta", ["sparse_inputs"], bases=(schemas.ViewAndMutationMeta,), kw_only=True)
    monkeypatch.setattr(schemas, "ViewAndMutationMeta", newer)
    assert found() == ["AOTAutograd's ViewAndMutationMeta has the new field sparse_inputs"]
    assert direct_calls_of_three(Net().eval(), image()) == 0


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


def test_without_the_hook_breaks_have_no_reason_and_answers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert_frame, "catch_errors_wrapper", convert_frame.catch_errors_wrapper.__wrapped__)  # type: ignore[attr-defined]
    monkeypatch.setattr(eval_frame, "_optimize_catch_errors", eval_frame._optimize_catch_errors.__wrapped__)  # type: ignore[attr-defined]
    with observe_gaps() as gaps:
        assert_same_answer(on_card(with_a_break), with_a_break, torch.randn(8, 16))
    assert gaps == []


def test_another_version_is_told_once_and_by_the_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "TESTED", "1.0")
    versions.warn_once.cache_clear()
    with pytest.warns(RuntimeWarning, match=r"tested with torch 1\.0, not 2\."):
        assert_same_answer(on_card(torch.relu), torch.relu, torch.randn(8, 16))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert_same_answer(on_card(torch.sigmoid), torch.sigmoid, torch.randn(8, 16))
    (finding,) = (finding for finding in doctor.examine() if finding.subject == "PyTorch")
    assert finding.state == doctor.MISSING and "install torch 1.0" in finding.remedy


@pytest.mark.parametrize(
    ("version", "tested"), [("2.13.0", True), ("2.13.1+cpu", True), ("2.1.3", False), ("2.14.0a0+git1234", False)]
)
def test_the_minor_version_decides(version: str, tested: bool) -> None:
    assert versions.is_tested(version) is tested
