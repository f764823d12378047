"""Calls on the hosts of a Ray cluster, which must have the same versions as this host."""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

import ray
from ray.exceptions import RayError, RayTaskError

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.serving.ray_connection import connect, living_hosts, on_host
from fpga_dynamo.tools.executor import WorkerDiedError
from fpga_dynamo.tools.host_versions import differences, versions

Item = TypeVar("Item")
Result = TypeVar("Result")
Facts = Callable[[], Mapping[str, str]]

_ATTEMPTS = 4
"""Of a call whose process or host dies."""
_PREFIX = "FPGA_DYNAMO_"


class RayExecutor:
    """Each CPU of the cluster runs one call at a time. A call whose process or host dies is repeated on another.

    address: see `connect`. facts: what a host must have in common with this host beside Python and the package, by
    name. Environment variables of the package are those of this process on all hosts. Raises FpgaError if the cluster
    does not answer, or if a host differs.
    """

    def __init__(self, address: str, facts: Facts = dict) -> None:
        connect(address, {name: value for name, value in os.environ.items() if name.startswith(_PREFIX)})
        try:
            self._expected = ray.put(({**versions(), **facts()}, facts))
            task = ray.remote(num_cpus=0, max_retries=0)(_differences)
            for node, host in living_hosts().items():
                try:
                    found = ray.get(task.options(scheduling_strategy=on_host(node)).remote([self._expected]))
                except RayError as error:
                    found = " ".join(str(getattr(error, "cause", error)).split())
                if found:
                    raise _refusal(host, found)
        except BaseException:
            ray.shutdown()
            raise
        self.in_flight = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._task: Any = ray.remote(num_cpus=1, max_retries=_ATTEMPTS - 1)(_work)
        self._calls: dict[Callable[..., Any], Any] = {}

    def submit(self, call: Callable[[Item], Result], item: Item, /) -> Future[Result]:
        if call not in self._calls:
            self._calls[call] = ray.put(call)
        future: Future[Result] = Future()
        future.set_running_or_notify_cancel()
        self._task.remote([self._expected, self._calls[call]], item).future().add_done_callback(
            lambda ended: _pass_on(ended, future)
        )
        return future

    def __enter__(self) -> RayExecutor:
        return self

    def __exit__(self, *exception: object) -> None:
        ray.shutdown()  # ends the calls that still run


def _refusal(host: str, why: str) -> FpgaError:
    return FpgaError(f"host {host!a} of the Ray cluster: {why}; install the same versions on all hosts")


def _pass_on(ended: Future[Any], future: Future[Any]) -> None:
    error = ended.exception()
    if isinstance(error, RayTaskError):  # what the call raised
        future.set_exception(error.cause if isinstance(error.cause, Exception) else error)
    elif error is not None:
        reason = str(error).splitlines()[0]
        future.set_exception(WorkerDiedError(f"the process that ran it died on each of {_ATTEMPTS} attempts: {reason}"))
    else:
        future.set_result(ended.result())


# In a worker's process. References come in lists, so that Ray does not fetch what they refer to for each call.


@functools.lru_cache(maxsize=4)
def _fetched(reference: Any) -> Any:
    return ray.get(reference)


@functools.lru_cache(maxsize=4)
def _differences_from(expected: Any) -> str:
    here, facts = _fetched(expected)
    return differences(here, {**versions(), **facts()})


def _differences(references: list[Any]) -> str:
    return _differences_from(references[0])


def _work(references: list[Any], item: Any) -> Any:
    expected, call = references
    wrong = _differences_from(expected)  # of a host that joined later
    if wrong:
        raise _refusal(platform.node(), wrong)
    return _fetched(call)(item)
