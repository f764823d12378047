"""The applications of examples/soc: against the truth in their signals, and against eager on whichever unit."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import fpga_dynamo
from examples.soc.workloads import WORKLOADS, detection, doppler, mitigation, speech, vgg, wifi
from examples.soc.workloads.readout import one_thread
from fpga_dynamo.runtime.application import Application
from fpga_dynamo.tools.task_graph import task_graph
from tests.marks import EXTENDED

SMALL = ("pulse_doppler", "temporal_mitigation", "wifi_tx", "speech")
"""Whose tasks are made again operator by operator; of the others layers are enough."""
TOLERANCE = {"temporal_mitigation": 3e-5, "detection": 3e-5, "vgg16": 5e-5}
"""Of the whole result's norm; a linear system, and sums of thousands of terms, lose more than rounding does."""


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


def difference(result: torch.Tensor, wanted: torch.Tensor) -> float:
    wide = torch.complex128 if wanted.is_complex() else torch.float64
    return float((result.to(wide) - wanted.to(wide)).norm() / wanted.to(wide).norm())


@functools.cache
def eager(name: str) -> torch.Tensor:
    model, inputs = WORKLOADS[name]()
    with torch.no_grad():
        result: torch.Tensor = model(*inputs)
    return result


def compiled(name: str, **options: Any) -> torch.Tensor:
    torch._dynamo.reset()
    model, inputs = WORKLOADS[name]()
    with torch.no_grad():
        run = torch.compile(model, backend="fpga", dynamic=False, options={"recipe": "signal", **options})
        result: torch.Tensor = run(*inputs)
    return result


# --- the truth --------------------------------------------------------------------------------------------------------


def test_the_radar_finds_its_target_where_it_is() -> None:
    radar = doppler.Radar()
    for distance, speed in ((2000.0, 40.0), (700.0, -55.0), (4500.0, 0.0)):
        model = doppler.PulseDoppler(radar)
        found = doppler.target(radar, model(radar.echoes(distance, speed, noise=2.0)))
        assert abs(found[0] - distance) <= radar.range_bin / 2 + 1e-6
        assert abs(found[1] - speed) <= radar.speed_bin / 2 + 1e-6


def test_mitigation_brings_the_return_out() -> None:
    received, copies, pulse, echo = mitigation.scene(delay=150)
    cleaned = mitigation.TemporalMitigation()(received, copies)
    assert difference(received, echo) > 20
    assert difference(cleaned, echo) < 0.3
    assert mitigation.delay_of(received, pulse) != 150
    assert mitigation.delay_of(cleaned, pulse) == 150


def test_words_are_told_apart() -> None:
    audio, labels = speech.spoken(100, seed=5)
    with torch.no_grad():
        right = speech.model()(audio).argmax(1) == labels
    assert right.float().mean() >= 0.9


def test_textures_are_told_apart() -> None:
    images, labels = vgg.textures(50, seed=5)
    with torch.no_grad():
        right = vgg.model()(images).argmax(1) == labels
    assert right.float().mean() >= 0.8


@pytest.mark.slow
@pytest.mark.extended
def test_objects_are_found() -> None:
    images, truth = detection.scenes(30, seed=5)
    with torch.no_grad():
        heads = detection.model()(images)
    found = [detection.decode(head) for head in heads]
    hits = sum(
        any(box.kind == other.kind and box.overlap(other) > 0.5 for other in boxes)
        for objects, boxes in zip(truth, found, strict=True)
        for box in objects
    )
    assert hits >= 0.95 * sum(map(len, truth))
    assert sum(map(len, found)) <= 1.05 * sum(map(len, truth))


def octets(bits: torch.Tensor) -> str:
    flat = [int(bit) for bit in bits.flatten()]
    return bytes(int("".join(map(str, flat[i : i + 8])), 2) for i in range(0, len(flat), 8)).hex()


ANNEX_G_SAMPLES = {
    0: 0.023 + 0.023j, 1: -0.132 + 0.002j, 159: 0.002 - 0.132j, 160: -0.055 + 0.023j, 161: 0.012 - 0.098j,
    319: -0.005 + 0.120j, 320: 0.109, 321: 0.033 - 0.044j, 322: -0.002 - 0.038j, 323: -0.081 + 0.084j,
    400: -0.139 + 0.050j, 401: 0.004 + 0.014j, 402: 0.011 - 0.100j, 403: -0.097 - 0.020j, 404: 0.062 + 0.081j,
    405: 0.124 + 0.139j, 406: 0.104 - 0.015j, 407: 0.173 - 0.140j,
}  # fmt: skip
"""Of table G.24, by number: training symbols, the SIGNAL symbol (320), the first of the data (400)."""


def test_the_transmitter_makes_the_standards_example() -> None:
    """IEEE 802.11a-1999, Annex G: bits after each step of the first symbol, samples of the packet."""
    model, (bits,) = wifi.example()
    assert isinstance(model, wifi.Transmitter)
    scrambled = model.scrambled(bits)
    coded = model.coder.coded(scrambled)
    sent = coded[torch.tensor(wifi.RATES[36].keep).repeat(len(coded) // 6).bool()]
    assert octets(sent[:192]) == "2b08a1f09db59a1d4afbe8c28fc0c873c043e019e0d3ebb2"  # table G.18
    assert octets(model.coder(scrambled)[0]) == "77f0efc47300bf11109a1d126e38f5691b6b9843000db36d"  # table G.21
    packet = model(bits)
    assert packet.shape == (881,)
    for number, sample in ANNEX_G_SAMPLES.items():
        assert abs(complex(packet[number]) - sample) < 7.1e-4, number  # three digits of each part


def test_the_standards_octets_end_as_it_says() -> None:
    """Table G.17; the frame's check sequence as the edition of 1999 prints it."""
    model, _ = wifi.example()
    assert isinstance(model, wifi.Transmitter)
    frame = wifi.FRAME[:-4] + bytes.fromhex("da5799ed")
    assert octets(model.scrambled(wifi.bits_of(frame))[-144:]) == "7d8a27173915a0ec28308cca00dc7f0ef2c9"


def test_quadrature_phase_shift_keying() -> None:
    model = wifi.Transmitter(mbits=12, octets=20)
    bits = wifi.bits_of(bytes(range(20)))
    samples = model(bits)
    assert samples.shape == (400 + 80 * model.symbols + 1,)
    # A receiver's view: the first data symbol's spectrum is of points at (+-1 +-1j) / sqrt(2), and four pilots.
    spectrum = torch.fft.fft(samples[400 + 16 : 400 + 80].to(torch.complex128))
    carriers = spectrum[[k % 64 for k in wifi.DATA_CARRIERS]]
    torch.testing.assert_close(carriers.real.abs(), torch.full((48,), 0.5**0.5, dtype=torch.float64), atol=1e-5, rtol=0)
    torch.testing.assert_close(carriers.imag.abs(), torch.full((48,), 0.5**0.5, dtype=torch.float64), atol=1e-5, rtol=0)


# --- any unit ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=EXTENDED if name == "detection" else ()) for name in WORKLOADS]
)
def test_on_the_card_and_on_any_unit_the_answer_is_eagers(name: str) -> None:
    tolerance = TOLERANCE.get(name, 2e-6)
    assert difference(compiled(name, partition="greedy"), eager(name)) < tolerance
    for policy in ("random", "adaptive"):
        assert difference(compiled(name, granularity="layer", policy=policy), eager(name)) < tolerance


@functools.cache
def graph_of(name: str) -> Application:
    model, inputs = WORKLOADS[name]()
    granularity = "op" if name in SMALL else "layer"
    return task_graph(model, *inputs, granularity=granularity, measure=False, platform="zcu102", name=name)


@pytest.mark.parametrize("name", WORKLOADS)
def test_tasks_run_one_by_one_on_kernels_or_on_the_host(name: str) -> None:
    graph = graph_of(name)
    assert {kernel for task in graph.tasks if (kernel := task.kernel)} & {"fft", "zip", "mmult", "conv2d"}
    generator = torch.Generator().manual_seed(3)
    for share in (0.0, 0.5, 1.0):
        results: list[tuple[Any, ...]] = []
        for task in graph.tasks:
            on_card = task.kernel and float(torch.rand((), generator=generator)) < share
            inputs = [results[edge.task] for edge in task.dependencies]
            results.append(task.run(task.kernel if on_card else "a53", *inputs))
        wanted = eager(name)
        made = [value for result in results for value in result if isinstance(value, torch.Tensor)]
        alike = [value for value in made if value.numel() == wanted.numel() and value.dtype is wanted.dtype]
        assert min(difference(value.reshape(wanted.shape), wanted) for value in alike) < TOLERANCE.get(name, 2e-6)


def test_a_graph_says_what_each_task_costs_everywhere() -> None:
    graph = graph_of("pulse_doppler")
    for task in graph.tasks:
        assert {"x86", "a53", "a72"} <= task.seconds.keys()
        assert task.seconds["a53"] > task.seconds["a72"] > task.seconds["x86"] > 0
        assert task.basis.keys() == task.seconds.keys()
        assert bool(task.kernel) == (task.seconds.keys() > {"x86", "a53", "a72"})
    assert sum(task.from_host for task in graph.tasks) >= 64 * 256 * 8
    assert sum(task.to_host for task in graph.tasks) == 64 * 256 * 4
    transforms = [task for task in graph.tasks if task.kernel == "fft" and "fft" in task.layer]
    assert len(transforms) == 12
    assert all("cycles simulated from the sources, 300 MHz" in task.basis["fft"] for task in transforms)
    assert fpga_dynamo.task_graph is task_graph
