"""A connection to a Ray cluster, for replicas of a served model and for the commands that spread work over hosts."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fpga_dynamo.errors import FpgaError

_REACHED_S = 10.0


def connect(address: str, environment: Mapping[str, str] | None = None) -> None:
    """Connects this process to a cluster. Raises FpgaError if the cluster does not answer.

    address: of the cluster, or "auto" for the one that this host belongs to. environment: variables of its workers.
    """
    try:
        host, colon, port = address.rpartition(":")
        if colon and "/" not in host:  # Ray itself tries for minutes
            socket.create_connection((host, int(port)), _REACHED_S).close()
        runtime = {"env_vars": dict(environment)} if environment else None
        ray.init(address=address, log_to_driver=False, logging_level="warning", runtime_env=runtime)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise FpgaError(f"--ray {address[:60]!a}: {reason}; start a cluster with 'ray start --head'") from error


def living_hosts() -> dict[str, str]:
    """The name of each host that is alive, by its node's number in the cluster. Raises FpgaError without any."""
    found = {node["NodeID"]: node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]}
    if not found:
        raise FpgaError("the Ray cluster has no host that is alive")
    return dict(sorted(found.items()))


def on_host(node: str) -> Any:
    """The option of a task or an actor that keeps it on a host."""
    return NodeAffinitySchedulingStrategy(node, soft=False)
