"""What every test relies on: programs lowered today (the tests of the disk cache turn it on for themselves), internal
errors of the compiler that are raised instead of a fallback to eager mode, and a Ctrl-C that raises, which a shell
takes from what it starts in the background."""

import argparse
import logging
import os
import re
import signal
from collections import Counter
from pathlib import Path

import pytest
import torch  # noqa: F401 - its logging keeps the standard error that it finds, so it is imported before tests replace that

from tests.marks import EXTENDED


def _without(hdlr: logging.Handler) -> None:
    """torch prints each graph for its trace once that has a handler, and pytest gives every logger one: 6 % of the time
    of tests that compile."""


logging.getLogger("torch.__trace").addHandler = _without  # type: ignore[method-assign]
os.environ["FPGA_DYNAMO_PROGRAM_CACHE"] = "0"
os.environ["FPGA_DYNAMO_INTERNAL_ERRORS"] = "raise"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

LONGEST = (
    "hls_kernels/test_benches.py",
    "test_docs.py",
    "test_fuzz.py",
    "driver/test_conformance.py",
    "driver/test_xrt_faults.py",
    "driver/test_driver_sanitizer.py",
    "driver/test_xrt_models.py",
)
"""Files that take minutes. `make test` gives each process a file at a time: these first, small ones fill the end."""


EVERY = {
    "backend/test_counting_card.py": 3,
    "backend/test_data_dependent_sizes.py": 4,
    "backend/test_dynamic_shapes.py": 3,
    "backend/test_frames.py": 3,
    "backend/test_infinite_weights.py": 2,
    "backend/test_tensors.py": 2,
    "backend/test_weight_changes.py": 3,
    "driver/test_driver_faults.py": 3,
    "hls_kernels/test_benches.py": 2,
    "hls_kernels/test_engine.py": 2,
    "hls_kernels/test_engine_vector.py": 2,
    "hls_kernels/test_sim.py": 3,
    "lowering/test_attention.py": 2,
    "lowering/test_backward.py": 2,
    "lowering/test_bands.py": 2,
    "lowering/test_convolution.py": 3,
    "lowering/test_engine_attention.py": 3,
    "lowering/test_engine_bits.py": 4,
    "lowering/test_engine_channels.py": 4,
    "lowering/test_engine_factors.py": 3,
    "lowering/test_engine_floats.py": 3,
    "lowering/test_engine_phases.py": 4,
    "lowering/test_engine_width_tiling.py": 4,
    "lowering/test_engine_sums.py": 4,
    "lowering/test_integers.py": 3,
    "lowering/test_narrow_weights.py": 3,
    "lowering/test_pattern_mistakes.py": 2,
    "lowering/test_pointwise.py": 3,
    "lowering/test_quantised.py": 2,
    "lowering/test_quantised_float_operators.py": 3,
    "lowering/test_quantised_tensor_scales.py": 3,
    "lowering/test_strides.py": 3,
    "lowering/test_winograd.py": 2,
    "models/test_models.py": 3,
    "test_opinfo.py": 2,
}
"""Files whose tests have many cases that take long: of each test `make test` runs every n-th case, `make extended` the
others."""


@pytest.fixture(autouse=True)
def internal_errors_fall_back(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test marked `internal_errors` causes internal errors and sees the graph fall back to eager mode."""
    if request.node.get_closest_marker("internal_errors"):
        monkeypatch.delenv("FPGA_DYNAMO_INTERNAL_ERRORS")


def _part(text: str) -> tuple[int, int]:
    """ "1/3" as (1, 3)."""
    given = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if given is None or int(given[1]) > int(given[2]):
        raise argparse.ArgumentTypeError(f"it must be K/N with K from 1 to N, such as 1/3, not {text!r}")
    return int(given[1]), int(given[2])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part", type=_part, default=(1, 1), metavar="K/N", help="of the extended tests, every N-th from the K-th on"
    )


@pytest.hookimpl(tryfirst=True)  # marks decide what is run
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    rank = {here / name: position for position, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))
    every = {here / name: n for name, n in EVERY.items()}
    cases: Counter[tuple[Path, str]] = Counter()
    for item in items:
        if isinstance(item, pytest.Function) and item.path in every and not item.get_closest_marker("slow"):
            test = item.path, item.originalname
            if cases[test] % every[item.path]:
                for mark in EXTENDED:
                    item.add_marker(mark)
            cases[test] += 1
    part, parts = config.getoption("--part")
    extended = [item for item in items if item.get_closest_marker("extended")]
    left_out = {item for number, item in enumerate(extended) if number % parts != part - 1}
    items[:] = [item for item in items if item not in left_out]
