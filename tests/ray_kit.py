"""A Ray cluster of two nodes, both on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

ray: Any = pytest.importorskip("ray", reason="make ray installs it")
cluster_utils: Any = pytest.importorskip("ray.cluster_utils")


class Cluster:
    """A head node, on which this process is, and a second node, with a CPU each."""

    def __init__(self) -> None:
        self.cluster = cluster_utils.Cluster(
            initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
        )
        self.second = self.cluster.add_node(num_cpus=1)

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def kill_second(self) -> None:
        self.cluster.remove_node(self.second)


@contextlib.contextmanager
def two_nodes() -> Iterator[Cluster]:
    made = Cluster()
    try:
        yield made
    finally:
        ray.shutdown()  # where this process has joined it
        made.cluster.shutdown()
