"""Wrong definitions and calls of plain kernels, and kernels that fail: a sentence with the argument's name each."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import fpga_dynamo
from fpga_dynamo import ArgumentError, DeviceError, FpgaError, OptionError, VerificationError, XclbinError
from fpga_dynamo.cache.graphs import graph_to_plain
from fpga_dynamo.cache.plain import UnstorableError
from tests.backend.plain_kit import BROKEN, axpy, define, fail, fail_with_cpu, split

OUT: dict[str, Any] = {"outputs": {"out": "like a"}, "sizes": {"n": "a.numel()"}}


@pytest.mark.parametrize(
    ("top", "rules", "sentence"),
    [
        ("axpyy", {}, 'does not define \'extern "C" void axpyy'),
        ("axpy", {}, "argument 'y' is a pointer that the kernel may write; name it in outputs="),
        ("axpy", {"outputs": {"z": "like x"}}, "outputs= names 'z'; known: alpha, n, x, y"),
        ("axpy", {"outputs": {"x": "like y"}}, "argument 'x' is a pointer to const"),
        ("axpy", {"outputs": {"y": "like x", "alpha": "like x"}}, "argument 'alpha' is a number"),
        ("axpy", {"outputs": {"y": "like x"}, "sizes": {"x": "1"}}, "argument 'x' is a pointer"),
        ("axpy", {"outputs": {"y": "like x"}, "mutates_args": ("y",)}, "'y' is in mutates_args= and in outputs="),
        ("axpy", {"outputs": {"y": "like xx"}}, "outputs={'y': ...} is like 'xx', not a tensor; did you mean 'x'?"),
        ("axpy", {"outputs": {"y": "like alpha"}}, "is like 'alpha', not a tensor; known: x."),
        ("axpy", {"outputs": {"y": "like x"}, "sizes": {"n": "m.numel()"}}, "sizes={'n': ...} uses 'm'"),
        ("axpy", {"outputs": {"y": "like x"}, "sizes": {"n": "x.numel("}}, "is not a Python expression: 'x.numel('"),
        ("axpy", {"outputs": {"y": "like x"}, "sizes": {"n": lambda q: 1}}, "sizes={'n': ...} has a parameter 'q'"),
        ("axpy", {"outputs": lambda q: {}}, "outputs= has a parameter 'q'"),
        ("axpy", {"outputs": {"y": None}}, "outputs={'y': ...} must be an expression, a function or a number"),
        ("axpy", {"inputs": ("y",)}, "writes no argument"),
        ("axpy", {"outputs": {"y": "like x"}, "cpu": 3}, "cpu= must be a function"),
        ("axpy", {"outputs": {"y": "like x"}, "timeout": 0}, "timeout= must be a positive number"),
        ("axpy", {"outputs": {"y": "like x"}, "name": "axpy"}, "name= must be 'namespace::name'"),
    ],
)
def test_definitions(top: str, rules: dict[str, Any], sentence: str) -> None:
    with pytest.raises(OptionError) as raised:
        define(top, **rules)
    assert sentence in str(raised.value) and str(raised.value).startswith(f"kernel '{top}'")


def test_a_name_that_is_taken() -> None:
    define("fail", **OUT, name="plain_test::once")
    with pytest.raises(OptionError, match="plain_test::once is defined already"):
        define("fail", **OUT, name="plain_test::once")
    assert str(define("fail", **OUT).op) != str(define("fail", **OUT).op)


X, Y = torch.ones(2, 10)
CALLS = [
    (lambda: axpy(X.double(), Y, 1.0), "argument 'x' is a tensor of float64, but the source declares float*: pass"),
    (lambda: axpy(X, Y), "argument 'alpha' (float) is missing; pass it in the call, or give a rule"),
    (lambda: axpy(X, alpha=1.0), "argument 'y' (float*) is missing"),
    (lambda: axpy(X, Y, 1.0, n=3), "has no argument 'n' that a call gives; its arguments are x, y, alpha"),
    (lambda: axpy(X, Y, 1.0, x=X), "argument 'x' is given twice"),
    (lambda: axpy(X, Y, 1.0, 2), "takes 3 arguments (x, y, alpha), not 4"),
    (lambda: axpy(X, Y, "1"), "argument 'alpha' must be a number (float), not '1'"),
    (lambda: axpy(X, [1.0], 1.0), "argument 'y' must be a tensor (float*), not a value of type list"),
    (lambda: axpy(X.to("meta"), Y, 1.0), "argument 'x' is on meta"),
    (lambda: axpy(X.to_sparse(), Y, 1.0), "argument 'x' is on cpu (torch.sparse_coo)"),
]


@pytest.mark.parametrize(("call", "sentence"), CALLS)
def test_calls(call: Any, sentence: str) -> None:
    for run in (call, torch.compile(call, backend="fpga")):
        with pytest.raises(ArgumentError) as raised:
            run()
        assert sentence in str(raised.value) and str(raised.value).startswith("kernel 'axpy'")


@pytest.mark.parametrize(
    ("size", "sentence"),
    [
        ("1 << 40", "argument 'n' (int) must be from -2147483648 to 2147483647, not 1099511627776"),
        ("0.5", "argument 'n' (int) must be an integer, not 0.5"),
        ("a.shape[5]", "sizes={'n': ...} ('a.shape[5]') raised IndexError for these arguments"),
        (lambda a: a.nothing, "sizes={'n': ...} raised AttributeError for these arguments"),
    ],
)
def test_sizes_that_do_not_fit(size: Any, sentence: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        define("fail", outputs={"out": "like a"}, sizes={"n": size})(X)
    assert sentence in str(raised.value)


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("a.double()", "output 'out' is a tensor of float64, but the source declares float*"),
        ("'x'", "output 'out' must be a tensor or a shape"),
    ],
)
def test_outputs_that_do_not_fit(rule: str, sentence: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        define("fail", outputs={"out": rule}, sizes={"n": 1})(X)
    assert sentence in str(raised.value)


def test_a_shape_for_elements_without_a_dtype() -> None:
    with pytest.raises(ArgumentError, match="output 'out' has elements of type beat, for which PyTorch has no dtype"):
        define("twice", outputs={"out": "16"}, sizes={"beats": 1})(X)


def test_no_gradient() -> None:
    with pytest.raises(FpgaError, match="kernel 'fail' has no gradient"):
        fail(X.clone().requires_grad_()).sum().backward()


def test_a_number_of_gradients() -> None:
    wrong = define("axpy", outputs={"y": "like x"}, sizes={"n": 1}, backward=lambda gradient, x, alpha: (None, None))
    with pytest.raises(ArgumentError, match=r"must return 1 gradient\(s\), one for each of x"):
        wrong(X.clone().requires_grad_(), 1.0).sum().backward()


def test_faults_in_eager_mode() -> None:
    sentence = r"kernel 'fail' of .*\.xclbin: .*compute unit fail_1.*argument 1 \('out'\)|crashed: segmentation fault"
    with pytest.raises(DeviceError, match=sentence):
        fail(torch.tensor([13.0]))
    with pytest.raises(DeviceError, match=r"'timeout' allows more than 0.5 s"):
        fail(torch.tensor([7.0]))
    assert fail(X).sum() == 20  # the unit works on


def test_faults_in_a_compiled_graph() -> None:
    ill = torch.full((10,), 13.0)
    with pytest.raises(DeviceError, match="kernel 'fail' of"):
        torch.compile(lambda a: fail(a) * 2, backend="fpga")(ill)
    with pytest.warns(RuntimeWarning, match="its segment ran in eager mode instead: kernel 'fail'"):
        result = torch.compile(lambda a: fail_with_cpu(a) * 2, backend="fpga")(ill)
    assert torch.equal(result, 2 * (ill + 1))
    strict: dict[str, Any] = {"strict": True, "partition": "greedy"}
    with pytest.raises(DeviceError, match="kernel 'fail' of"):
        torch.compile(lambda a: fail_with_cpu(a) * 3, backend="fpga", options=strict)(ill)


def test_a_kernel_that_is_verified() -> None:
    wrong = define("fail", **OUT, cpu=lambda a: a + 2)
    with pytest.raises(VerificationError, match="kernel 'fail' has computed, differs from its function cpu="):
        torch.compile(lambda a: wrong(a) * 2, backend="fpga", options={"verify": True})(X)


def test_a_source_that_does_not_compile() -> None:
    without = fpga_dynamo.kernel(BROKEN, "broken", **OUT)
    for run in (without, torch.compile(lambda a: without(a) * 2, backend="fpga")):
        with pytest.raises(XclbinError, match=r"kernel 'broken' cannot be built: .*plain_broken.cpp:2:\d+: error: "):
            run(X)
    with_cpu = fpga_dynamo.kernel(BROKEN, "broken", **OUT, cpu=lambda a: a + 1)
    with pytest.warns(RuntimeWarning, match="kernel 'broken' runs by its function cpu="):
        assert torch.equal(with_cpu(X), X + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(torch.compile(lambda a: with_cpu(a) * 2, backend="fpga")(X), 2 * (X + 1))
    report = fpga_dynamo.explain(lambda a: with_cpu(a) * 2, X)
    (node,) = (node for node in report.graphs[0].nodes if "broken" in node.op)
    assert node.place == "PS" and "kernel 'broken' cannot be built" in node.how
    with pytest.raises(Exception, match="kernel 'broken' cannot be built") as raised:
        torch.compile(lambda a: with_cpu(a) * 3, backend="fpga", options={"strict": True})(X)
    assert "NotLoweredError" in str(raised.value)


def test_a_function_with_other_results() -> None:
    wrong = fpga_dynamo.kernel(BROKEN, "broken", **OUT, cpu=lambda a: a[:2])
    with (
        pytest.warns(RuntimeWarning),
        pytest.raises(ArgumentError, match=r"cpu= returns a float32 tensor of \(2,\) for output 'out'; outputs= says"),
    ):
        wrong(X)


def test_an_xclbin_without_the_kernel(tmp_path: Path) -> None:
    other = tmp_path / "fail.cpp"
    other.write_text('extern "C" void fail(const float* a, float* out) { out[0] = a[0]; }\n')
    mine = fpga_dynamo.kernel(other, outputs={"out": "like a"})
    mine(X)
    wrong = define("fail", **OUT, xclbin=mine.xclbin)
    with pytest.raises(XclbinError, match=r"has no kernel 'fail' with the arguments of .*plain.cpp"):
        wrong(X)
    assert torch.equal(fpga_dynamo.kernel(other, outputs={"out": "like a"}, xclbin=mine.xclbin)(X)[:1], X[:1])


def test_a_card_holds_one_xclbin() -> None:
    target = replace(fpga_dynamo.target_of(recipe="emulator"), lanes=0)
    why = split.why_not(target)
    assert why is not None and 'link [kernel.split] with source = "plain.cpp" into it' in why


def test_a_card_without_the_kernel_runs_the_function_on_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[torch.Tensor] = []

    def cpu(a: torch.Tensor) -> torch.Tensor:
        called.append(a)
        return a + 1

    kernel = define("fail", **OUT, cpu=cpu)
    monkeypatch.setattr(type(kernel), "why_not", lambda self, target: "a card holds one xclbin")
    compiled = torch.compile(lambda a: kernel(a) * 2, backend="fpga")
    assert torch.equal(compiled(X), 2 * (X + 1)) and len(called) == 1


def test_programs_with_kernels_are_not_kept_on_disk() -> None:
    def model(a: torch.Tensor) -> torch.Tensor:
        return torch.relu(fail(a))

    with pytest.raises(UnstorableError, match=r"a call of the plain kernel fpga_kernel\.fail"):
        graph_to_plain(make_fx(model, tracing_mode="fake")(X))
