"""Task graphs in the shapes of the literature's workloads, costs by the work in each task.

Used where no measured graph is at hand; rates of work are those of a Cortex-A53 at 1.2 GHz and of units at 300 MHz.
"""

from __future__ import annotations

import math

from fpga_dynamo.runtime.application import Application, ApplicationTask, Edge

CORE_FLOPS = 0.9e9
"""Of a Cortex-A53 in convolutions and products, sustained: a tenth of its peak of 9.6 GFLOP/s."""
CORE_OVERHEAD = 12e-6
"""Seconds of a call, and of its hand-over to a worker thread."""
UNIT_FLOPS = {"conv2d": 25e9, "mmult": 20e9, "fft": 9e9, "zip": 1.8e9}
UNIT_OVERHEAD = 10e-6
CORE_BYTES = 1.2e9
"""Bytes a second of what only moves and compares."""


SOURCE = "work of each task by formula, rates of a Cortex-A53 (guesses)"


class Builder:
    def __init__(self, name: str) -> None:
        self.name = name
        self.tasks: list[ApplicationTask] = []
        self.sizes: list[int] = []

    def task(
        self, name: str, kernel: str, flops: float, out: int, after: tuple[int, ...] = (), from_host: int = 0,
        to_host: int = 0,
    ) -> int:  # fmt: skip
        seconds = {"a53": CORE_OVERHEAD + (flops / CORE_FLOPS if kernel else out / CORE_BYTES)}
        if kernel:
            seconds[kernel] = UNIT_OVERHEAD + flops / UNIT_FLOPS[kernel]
        edges = tuple(Edge(index, self.sizes[index]) for index in after)
        self.tasks.append(
            ApplicationTask(
                name, seconds, edges, layer=kernel or "host", kernel=kernel, from_host=from_host, to_host=to_host
            )
        )
        self.sizes.append(out)
        return len(self.tasks) - 1

    def fft(self, name: str, points: int, after: tuple[int, ...] = (), from_host: int = 0) -> int:
        return self.task(name, "fft", 5 * points * math.log2(points), 8 * points, after, from_host)

    def conv(self, name: str, size: int, cin: int, cout: int, after: tuple[int, ...], kernel: int = 3) -> int:
        return self.task(name, "conv2d", 2 * size * size * cin * cout * kernel**2, 4 * size * size * cout, after)

    def build(self) -> Application:
        return Application(self.name, self.tasks, source=SOURCE)


def pulse_doppler(pulses: int = 32, samples: int = 256) -> Application:
    """Matched filter of each pulse (FFT, product, inverse FFT), Doppler FFTs across pulses, search of the peak."""
    b = Builder("pulse_doppler")
    reference = b.fft("chirp", samples, from_host=8 * samples)
    filtered = []
    for pulse in range(pulses):
        spectrum = b.fft(f"fft{pulse}", samples, from_host=8 * samples)
        product = b.task(f"zip{pulse}", "zip", 6 * samples, 8 * samples, (reference, spectrum))
        filtered.append(b.fft(f"ifft{pulse}", samples, (product,)))
    turned = b.task("corner_turn", "", 0, 8 * pulses * samples, tuple(filtered))
    b.sizes[turned] = 8 * pulses
    dopplers = tuple(b.fft(f"doppler{i}", pulses, (turned,)) for i in range(samples // 4))
    b.task("peak", "", 0, 8 * pulses * samples // 4, dopplers, to_host=16)
    return b.build()


def wifi_tx(symbols: int = 10) -> Application:
    """Scrambler and code on the host, then each OFDM symbol: interleaver, modulation, IFFT, prefix."""
    b = Builder("wifi_tx")
    coded = b.task("encode", "", 0, 24 * symbols, from_host=12 * symbols)
    parts = []
    for symbol in range(symbols):
        interleaved = b.task(f"interleave{symbol}", "", 0, 192, (coded,))
        mapped = b.task(f"map{symbol}", "", 0, 512, (interleaved,))
        parts.append(b.fft(f"ifft{symbol}", 64, (mapped,)))
    b.task("prefix", "", 0, 640 * symbols, tuple(parts), to_host=640 * symbols)
    return b.build()


def _network(name: str, size: int, widths: list[tuple[int, int]], classes: int) -> Application:
    b = Builder(name)
    last = b.task("input", "", 0, 4 * size * size * 3, from_host=4 * size * size * 3)
    channels = 3
    for stage, (width, layers) in enumerate(widths):
        for layer in range(layers):
            last = b.conv(f"conv{stage}_{layer}", size, channels, width, (last,))
            channels = width
        size //= 2
        last = b.task(f"pool{stage}", "", 0, 4 * size * size * channels, (last,))
    last = b.task("dense", "mmult", 2 * size * size * channels * 512, 2048, (last,))
    b.task("classes", "mmult", 2 * 512 * classes, 4 * classes, (last,), to_host=4 * classes)
    return b.build()


def vgg16() -> Application:
    """Thirteen convolutions on 32x32 images."""
    return _network("vgg16", 32, [(32, 2), (64, 2), (128, 3), (256, 3), (256, 3)], 10)


def detection() -> Application:
    """A small detector: a backbone, two scales with a head each, boxes on the host."""
    b = Builder("detection")
    last, channels, size = b.task("input", "", 0, 4 * 96 * 96 * 3, from_host=4 * 96 * 96 * 3), 3, 96
    for stage, width in enumerate((8, 16, 32, 64)):
        last = b.conv(f"conv{stage}", size // 2, channels, width, (last,))
        size, channels = size // 2, width
    fine = b.conv("fine", size, 64, 64, (last,))
    coarse = b.conv("coarse", size // 2, 64, 128, (last,))
    heads = [b.conv("head_fine", size, 64, 32, (fine,)), b.conv("head_coarse", size // 2, 128, 32, (coarse,))]
    boxes = tuple(b.task(f"boxes{i}", "", 0, 4 * 3 * 1024, (head,)) for i, head in enumerate(heads))
    b.task("suppression", "", 0, 8192, boxes, to_host=1024)
    return b.build()


def speech() -> Application:
    """M5 on a second of audio: four convolutions over time."""
    b = Builder("speech")
    last, length, channels = b.task("input", "", 0, 32000, from_host=32000), 2000, 1
    for layer, width in enumerate((32, 32, 64, 64)):
        flops = 2 * length * channels * width * (80 if layer == 0 else 3)
        last = b.task(f"conv{layer}", "conv2d", flops, 4 * length * width // 4, (last,))
        length, channels = length // 4, width
    b.task("classes", "mmult", 2 * 64 * 35, 140, (last,), to_host=140)
    return b.build()


def temporal_mitigation(blocks: int = 4) -> Application:
    """A filter for each block of samples: covariance, solution, projection, by products of matrices."""
    b = Builder("temporal_mitigation")
    parts = []
    for block in range(blocks):
        taken = b.task(f"block{block}", "", 0, 16384, from_host=16384)
        gram = b.task(f"gram{block}", "mmult", 8 * 64 * 64 * 32, 32768, (taken,))
        solved = b.task(f"solve{block}", "", 0, 65536, (gram,))
        parts.append(b.task(f"project{block}", "mmult", 8 * 64 * 64 * 32, 16384, (solved, taken)))
    b.task("join", "", 0, 16384 * blocks, tuple(parts), to_host=16384 * blocks)
    return b.build()


ALL = (pulse_doppler, wifi_tx, detection, vgg16, speech, temporal_mitigation)
