"""Whole networks in INT8: a call of ours, of our float32, of inductor's and, where installed, of other runtimes' INT8.

Inductor's are quantised by torchao's pt2e flow for x86, the others' by onnxruntime (int8_peers.py); ours by the flow
for x86, too, and in rows of their own by ours, which leaves none of a transformer's products in float. Calibrated on
random inputs: speed does not depend on what the scales are. The answer is held against eager mode's of the same
quantised network, whose own integers depend on the order of its sums.
"""

from __future__ import annotations

import copy
import gc
import importlib.util
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import int8_peers, pictures
from benchmarks.int8_peers import CALIBRATIONS
from benchmarks.peers import PEERS, plain_attention, quiet
from benchmarks.results import OURS, Result, Row, Target
from benchmarks.rounds import Contestant, describe, interleave
from benchmarks.suites import Settings, guarded
from benchmarks.verify import cases, check
from benchmarks.workloads import FREEZING, ONNXRUNTIME, OPENVINO, WORKLOADS, Workload
from fpga_dynamo import join_parameters
from fpga_dynamo.quantize import quantize
from xclbin_build.toolchain.isa import native

SECONDS = 10.0
JOINED, FLOAT, INDUCTOR_INT8 = "fpga joined", "fpga float32", "inductor int8"
"""Joined: parameters in one tensor (`join_parameters`), as the other runtimes, which have no guards, may have them."""
INT8 = {name: f"{name} int8" for name in int8_peers.NAMES}
OWN_FLOW = ", FPGAQuantizer"
"""Behind the name of a row whose network `fpga_dynamo.quantize` has quantised."""
NETWORKS = (
    "resnet18",
    "resnet50",
    "mobilenet_v2",
    "bert-tiny",
    "bert-base-x4",
    "inception_v3",
    "vgg19",
    "densenet121",
    "squeezenet1_1",
    "shufflenet_v2_x1_0",
    *(network + OWN_FLOW for network in ("resnet50", "mobilenet_v2", "bert-tiny", "bert-base-x4")),
)
_SMALLEST = "bert-tiny"
_OVER_FLOAT = {"resnet18": 2.0, "resnet50": 2.6, "mobilenet_v2": 1.4, "bert-tiny": 1.4, "bert-base-x4": 1.4}
TOLERANCE = 0.1
"""Of the largest output: integers that differ by one at each of a network's roundings."""


def rows(settings: Settings, details: dict[str, Any]) -> Iterator[Row]:
    names = [_SMALLEST] if settings.quick and not settings.only else settings.chosen(NETWORKS)
    for name in names:
        network = name.removesuffix(OWN_FLOW)
        yield from guarded(name, partial(measure, WORKLOADS[network], network != name, settings))


def measure(workload: Workload, own_flow: bool, settings: Settings, row: Row) -> None:
    """Fills the row of one network. Raises RuntimeError without torchao."""
    torch.compiler.reset()
    gc.collect()
    model, example = workload.make()
    with torch.no_grad(), plain_attention(), quiet():
        for_x86 = quantised(model, example)
        converted = quantize(copy.deepcopy(model), [example] * CALIBRATIONS, progress=False) if own_flow else for_x86
        wanted = cases(converted, example)
        contestants: dict[str, Contestant] = {}
        makers: dict[str, Callable[[], Any]] = {
            OURS: lambda: torch.compile(converted, backend="fpga"),
            JOINED: lambda: torch.compile(join_parameters(converted), backend="fpga"),
            FLOAT: lambda: torch.compile(model, backend="fpga"),
            INDUCTOR_INT8: lambda: PEERS[FREEZING](for_x86, example, settings.threads).bound(example),
        }
        for name, make in makers.items():
            try:
                call = make()
                if name in (OURS, JOINED):
                    error = check(call, wanted, TOLERANCE)
                    row.figures["error"] = max(error, row.figures.get("error", 0.0))
                contestants[name] = call if name == INDUCTOR_INT8 else partial(call, example)
                call() if name == INDUCTOR_INT8 else call(example)
            except Exception as error:
                row.failures[name] = describe(error)
        contestants |= _others(model, example, settings, row)
        row.add(interleave(contestants, settings.seconds, least_rounds=settings.least_rounds))
    row.demand(_limits(workload.name))
    joined = row.ratios(JOINED).get(INT8[OPENVINO])
    if joined is not None and workload.name in _OVER_FLOAT:
        row.targets.append(Target(f"joined over {INT8[OPENVINO]}", joined, _limits(workload.name)[INT8[OPENVINO]]))


def _limits(network: str) -> dict[str, float]:
    """What is asked for; of inductor and OpenVINO less where oneDNN has tiles of AMX."""
    if network not in _OVER_FLOAT:
        return {FLOAT: 1.0}
    tiles = "amx" in native() and "AMX" in os.environ.get("ONEDNN_MAX_CPU_ISA", "AMX")
    with_onednn = 0.8 if tiles else 1.0
    asked = {INDUCTOR_INT8: with_onednn, INT8[ONNXRUNTIME]: 1.0, INT8[OPENVINO]: with_onednn}
    return {FLOAT: _OVER_FLOAT[network], **asked}


def _others(model: nn.Module, example: Tensor, settings: Settings, row: Row) -> dict[str, Contestant]:
    """The INT8 of other runtimes; failures of one are noted in the row."""
    wanted = [name for name in int8_peers.installed() if name in settings.peers]
    found: dict[str, Contestant] = {}
    if not wanted:
        return found
    try:
        with int8_peers.quantised_file(model, example) as file:
            for name in wanted:
                found[INT8[name]] = int8_peers.runner(name, file, example, settings.threads)
    except Exception as error:
        row.failures["others' int8"] = describe(error)
    return found


def quantised(model: nn.Module, example: Tensor) -> nn.Module:
    """The network as torchao's quantizer for x86 leaves it."""
    if importlib.util.find_spec("torchao") is None:
        raise RuntimeError("torchao is not installed")
    from torchao.quantization.pt2e import move_exported_model_to_eval
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    exported = torch.export.export(copy.deepcopy(model), (example,), strict=True).module()
    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(exported, quantizer)
    for _ in range(CALIBRATIONS):
        prepared(example)
    converted: Any = convert_pt2e(prepared)
    move_exported_model_to_eval(converted)
    return converted


def draw(result: Result, path: Path) -> None:
    pictures.ratios(result, path, "Networks in int8: others' time / ours (above 1: ours is faster)")
