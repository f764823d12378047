"""The ways to run a model that are compared: ours, PyTorch's own, and other runtimes where they are installed.

A peer is made from a model and an example input. It may want its inputs in a form of its own; `prepare` and `read`
convert before and after, outside what is timed.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.results import OURS
from benchmarks.workloads import CHANNELS_LAST, EAGER, FREEZING, INDUCTOR, ONNXRUNTIME, OPENVINO


class UnsuitableError(Exception):
    """This peer has nothing to say about this model."""


def _as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Runner:
    """A model made ready by a peer."""

    call: Callable[[Any], Any]
    prepare: Callable[[Tensor], Any] = _as_it_is
    read: Callable[[Any], Tensor] = _as_it_is

    def __call__(self, x: Tensor) -> Tensor:
        return self.read(self.call(self.prepare(x)))

    def bound(self, x: Tensor) -> Callable[[], object]:
        """A call with this input and no conversions."""
        prepared, call = self.prepare(x), self.call
        return lambda: call(prepared)


Maker = Callable[[nn.Module, Tensor, int], Runner]


def _ours(model: nn.Module, example: Tensor, threads: int) -> Runner:
    return Runner(torch.compile(model, backend="fpga"))


def _eager(model: nn.Module, example: Tensor, threads: int) -> Runner:
    return Runner(model)


def _channels_last(model: nn.Module, example: Tensor, threads: int) -> Runner:
    if example.dim() != 4:
        raise UnsuitableError("no image")
    layout = torch.channels_last
    converted = copy.deepcopy(model).to(memory_format=layout)  # type: ignore[call-overload]
    return Runner(converted, prepare=lambda x: x.contiguous(memory_format=layout))


def _inductor(model: nn.Module, example: Tensor, threads: int) -> Runner:
    return Runner(torch.compile(model))


def _freezing(model: nn.Module, example: Tensor, threads: int) -> Runner:
    from fpga_dynamo.torch_internals.dynamo import inductor_freezes

    # The option keeps Dynamo from taking what plain inductor has compiled for the same code; the setting must hold
    # as well while Dynamo traces, or parameters are not constants.
    compiled = torch.compile(copy.deepcopy(model), options={"freezing": True})
    with inductor_freezes():
        compiled(example)
    return Runner(compiled)


def _onnxruntime(model: nn.Module, example: Tensor, threads: int) -> Runner:
    with plain_attention(), tempfile.TemporaryDirectory() as folder:
        exported: Any = torch.onnx.export(model, (example,), dynamo=True, verbose=False)
        path = Path(folder) / "model.onnx"
        exported.save(str(path), external_data=True)
        return onnxruntime_session(path, threads)


def onnxruntime_session(path: Path, threads: int) -> Runner:
    """An ONNX file of one input and one output, run by onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Its threads spin within a run, as they would alone, but not on into the next contestant's turn.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return Runner(
        lambda array: session.run(None, {name: array}),
        prepare=lambda x: x.numpy(),
        read=lambda outputs: torch.from_numpy(outputs[0]),
    )


def _openvino(model: nn.Module, example: Tensor, threads: int) -> Runner:
    import openvino

    with plain_attention():
        converted = openvino.convert_model(torch.export.export(model, (example,)))
    return openvino_request(converted, threads)


def openvino_request(model: Any, threads: int) -> Runner:
    """A model of OpenVINO's, or a file that it reads, of one input and one output."""
    import openvino

    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    return Runner(
        lambda array: request.infer({0: array}, share_inputs=True, share_outputs=True),
        prepare=lambda x: x.numpy(),
        read=lambda outputs: torch.from_numpy(outputs[0]).clone(),
    )


PEERS: Mapping[str, Maker] = {
    OURS: _ours,
    EAGER: _eager,
    CHANNELS_LAST: _channels_last,
    INDUCTOR: _inductor,
    FREEZING: _freezing,
    ONNXRUNTIME: _onnxruntime,
    OPENVINO: _openvino,
}
NEEDS: Mapping[str, tuple[str, ...]] = {ONNXRUNTIME: ("onnxruntime", "onnxscript"), OPENVINO: ("openvino",)}
"""Packages that a peer cannot do without."""


def installed_peers() -> list[str]:
    """Names of the peers whose packages are installed, without ours."""
    return [name for name in PEERS if name != OURS and not missing(name)]


def missing(name: str) -> list[str]:
    return [package for package in NEEDS.get(name, ()) if importlib.util.find_spec(package) is None]


def make(name: str, model: nn.Module, example: Tensor, threads: int) -> Runner:
    """The model made ready by the peer, and called once. Raises whatever the peer raises."""
    absent = missing(name)
    if absent:
        raise UnsuitableError(f"not installed: {', '.join(absent)} (make bench PEERS=all)")
    with quiet(), torch.no_grad():
        runner = PEERS[name](model, example, threads)
        runner(example)
    return runner


@contextlib.contextmanager
def plain_attention() -> Iterator[None]:
    """Exports must not see the fused operators that eager has for encoder layers: no other runtime knows them."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps the chatter of exporters and compilers out of the output."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
