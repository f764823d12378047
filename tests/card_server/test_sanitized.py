"""The server in C++ under the compiler's sanitizers: forged requests, clients that vanish, the suite of drivers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.card_server.card_server_kit import Served, serving
from tests.card_server.test_forged_frames import (
    RAW,
    test_mutated_requests_of_a_client_with_the_token,
    test_strangers_get_no_operation,
)
from tests.card_server.test_forged_frames import (
    test_bytes_of_strangers as bytes_of_strangers,
)
from tests.card_server.test_refusals import test_a_client_that_vanishes_leaves_nothing as vanishes
from tests.driver.test_conformance import conform
from tests.marks import EXTENDED

SANITIZED = ["native:address,undefined", "native:thread"]
pytestmark = [*EXTENDED]
__all__ = [
    "test_mutated_requests_of_a_client_with_the_token",
    "test_strangers_get_no_operation",
]  # which run here with the server below


@pytest.fixture(scope="module", params=SANITIZED)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("server"), "--memory", "256", kind=request.param) as running:
        yield running


def test_all_bytes_of_strangers(server: Served) -> None:
    for number in range(len(RAW)):
        bytes_of_strangers(server, number)


@pytest.mark.parametrize("how", ["launch", "start"])
def test_a_client_that_vanishes(server: Served, how: str) -> None:
    if "thread" in str(server.process.args):
        pytest.skip("ThreadSanitizer does not deliver the signal that ends a kernel")
    vanishes(server, how)


@pytest.mark.parametrize("kind", SANITIZED)
def test_conformance(kind: str, tmp_path: Path) -> None:
    """Without the kernels that misbehave: a sanitizer ends a process that asks for too much memory."""
    # ThreadSanitizer does not deliver the signal that ends a kernel which hangs.
    chosen = (
        ("-k", "many_threads or two_runs or adds or transfer or execute_io_moves or goes_on")
        if "thread" in kind
        else ()
    )
    with serving(tmp_path, kind=kind) as server:
        conform(server.driver, tmp_path, ["conformance.py"], *chosen)
