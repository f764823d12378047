"""The queue of calls and the replicas that answer them. A replica that ends is started again."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.serving.metrics import Metrics
from fpga_dynamo.serving.replica import (
    Answer,
    ExportedModel,
    LocalReplica,
    OpenModel,
    Ports,
    Replica,
    StartReplica,
)
from fpga_dynamo.serving.tensors import Tensor, joined_rows, split_rows

log = logging.getLogger(__name__)

_RESTART_S = 1.0
_LOOK_S = 0.5  # between looks at whether an idle replica still lives
_GRACE_S = 10.0
_MOST_ATTEMPTS = 2


class UnavailableError(Exception):
    """A call that no replica could answer; the message is one sentence."""


class RefusedError(Exception):
    """A call whose inputs the model refuses; the message is one sentence."""


@dataclass
class Call:
    """A call that waits or runs. attempts: replicas that have ended in the middle of it."""

    model: str
    inputs: list[Tensor]
    answer: Future[list[Tensor]] = field(default_factory=Future)
    attempts: int = 0

    def joins(self, other: Call) -> bool:
        """Whether the rows of both can be inputs of one call."""
        return self.model == other.model and all(
            mine.shape[1:] == theirs.shape[1:] for mine, theirs in zip(self.inputs, other.inputs, strict=True)
        )

    @property
    def rows(self) -> int:
        return self.inputs[0].shape[0]

    def begins(self) -> bool:
        """Whether the call is to be answered: nobody has cancelled it."""
        return self.attempts > 0 or self.answer.set_running_or_notify_cancel()


class Pool:
    """Replicas of all models.

    directories: by the model's name. devices: of the replicas, in turn. most_rows: of dynamic batching; 1
    switches batching off. most_waiting: calls in the queue, beyond which a call is refused. timeout: of a launch, in s.
    start_replica: how a replica is started; by default as a process of this host.
    """

    def __init__(
        self,
        directories: Mapping[str, str],
        *,
        replicas: int,
        devices: Sequence[int],
        most_rows: int,
        most_waiting: int,
        timeout: float,
        metrics: Metrics,
        open_model: OpenModel = ExportedModel,
        start_replica: StartReplica = LocalReplica,
    ) -> None:
        self._settings = (dict(directories), timeout, open_model)
        self._start_replica = start_replica
        self._devices = [devices[i % len(devices)] for i in range(replicas)]
        self._most_rows, self._most_waiting, self._timeout = most_rows, most_waiting, timeout
        self._metrics = metrics
        self._waiting: deque[Call] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._ready = 0
        self._threads: list[threading.Thread] = []
        self.models: dict[str, Ports] = {}

    @property
    def ready(self) -> int:
        """Replicas that answer calls."""
        return self._ready

    def start(self) -> None:
        """Starts all replicas. Raises FpgaError, with its sentence, if one of them cannot open a model."""
        started = [self._spawn(device) for device in self._devices]
        try:
            for replica in started:
                self.models = self._opened(replica)
        except FpgaError:
            for replica in started:
                replica.end(0.0, kill=True)
            raise
        for replica, device in zip(started, self._devices, strict=True):
            thread = threading.Thread(target=self._keep, args=(replica, device), daemon=True)
            self._threads.append(thread)
            thread.start()

    def batches(self, model: str) -> bool:
        """Whether calls of a model are joined: the first dimension of each input and output changes."""
        return self._most_rows > 1 and all(port.shape[:1] == (-1,) for ports in self.models[model] for port in ports)

    def submit(self, model: str, inputs: list[Tensor]) -> Future[list[Tensor]]:
        """Puts a call into the queue. Raises UnavailableError if the queue is full or no replica is there."""
        call = Call(model, inputs)
        with self._changed:
            if not self._ready or self._closing:
                raise UnavailableError("no replica is ready; try again")
            if len(self._waiting) >= self._most_waiting:
                raise UnavailableError(f"{len(self._waiting)} requests are waiting; try again")
            self._waiting.append(call)
            self._changed.notify()
        return call.answer

    def close(self) -> None:
        """Ends the replicas. Calls that still wait are refused."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(_GRACE_S)
        self._refuse_waiting("the server is shutting down")

    def _spawn(self, device: int) -> Replica:
        directories, timeout, open_model = self._settings
        return self._start_replica(directories, device, timeout, open_model)

    def _opened(self, replica: Replica) -> dict[str, Ports]:
        try:
            about = replica.recv()
        except (EOFError, OSError) as error:
            how = replica.end(_GRACE_S, kill=False)
            raise FpgaError(f"a replica ended with {how} before it was ready") from error
        if isinstance(about, str):
            raise FpgaError(about)
        return dict(about)

    def _keep(self, replica: Replica, device: int) -> None:
        """What the thread of a replica does: runs calls, and starts another replica where one has ended."""
        while True:
            self._count_ready(1)
            try:
                self._answer_calls(replica)
            except (EOFError, OSError, TimeoutError) as error:
                log.warning("%s on device %s ended (%s)", replica.name, device, str(error) or "end of file")
            self._count_ready(-1)
            replica.end(_GRACE_S, kill=not self._closing)
            while not self._closing:
                self._metrics.restarts.inc()
                try:
                    replica = self._spawn(device)
                    self._opened(replica)
                    break
                except FpgaError as error:
                    log.warning("a replica on device %s cannot start: %s", device, error)
                    replica.end(_GRACE_S, kill=True)
                    with self._changed:
                        self._changed.wait_for(lambda: self._closing, _RESTART_S)
            else:
                return

    def _count_ready(self, change: int) -> None:
        with self._changed:
            self._ready += change
            self._metrics.replicas.set(self._ready)
            none_left = not self._ready
        if none_left:
            self._refuse_waiting("no replica is ready; try again")

    def _refuse_waiting(self, sentence: str) -> None:
        with self._changed:
            calls = list(self._waiting)
            self._waiting.clear()
        for call in calls:
            if call.begins():
                call.answer.set_exception(UnavailableError(sentence))

    def _answer_calls(self, replica: Replica) -> None:
        """Runs calls until the pool closes. Raises EOFError, OSError or TimeoutError when the replica is gone."""
        while True:
            calls = self._take(replica)
            if not calls:
                return
            try:
                answers = self._run(replica, calls)
            except (EOFError, OSError, TimeoutError):
                self._retry(calls)
                raise
            for call, answer in zip(calls, answers, strict=True):
                if isinstance(answer, str):
                    call.answer.set_exception(RefusedError(answer))
                else:
                    call.answer.set_result(answer)

    def _take(self, replica: Replica) -> list[Call]:
        """The call that has waited longest, with those that can be joined to it; none when the pool closes.

        Raises EOFError when the replica has ended.
        """
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._waiting or self._closing, _LOOK_S)
                if not self._waiting and self._closing:
                    return []
                if replica.poll():
                    raise EOFError
                running = [call for call in self._next_calls() if call.begins()]
                if running:
                    return running

    def _next_calls(self) -> list[Call]:
        """Takes calls from the queue."""
        if not self._waiting:
            return []
        taken = [self._waiting.popleft()]
        if not self.batches(taken[0].model):
            return taken
        rows, kept = taken[0].rows, deque[Call]()
        for call in self._waiting:
            if taken[0].joins(call) and rows + call.rows <= self._most_rows:
                taken.append(call)
                rows += call.rows
            else:
                kept.append(call)
        self._waiting = kept
        return taken

    def _run(self, replica: Replica, calls: Sequence[Call]) -> Sequence[Answer]:
        """Answers of calls, which are joined if there are several."""
        model = calls[0].model
        if not self.batches(model):
            return [self._exchange(replica, model, calls[0].inputs)]
        rows = [call.rows for call in calls]
        self._metrics.batch_rows.labels(model).observe(sum(rows))
        inputs = [joined_rows(column) for column in zip(*(call.inputs for call in calls), strict=True)]
        answer = self._exchange(replica, model, inputs)
        if isinstance(answer, str) and sum(rows) == 1:  # most exported programs do not hold for one row
            answer = self._exchange(replica, model, [joined_rows([tensor, tensor]) for tensor in inputs])
        if not isinstance(answer, str):
            return [list(column) for column in zip(*(split_rows(tensor, rows) for tensor in answer), strict=True)]
        if len(calls) == 1:
            return [answer]
        return [self._run(replica, [call])[0] for call in calls]  # only some of them may be at fault

    def _exchange(self, replica: Replica, model: str, inputs: list[Tensor]) -> Answer:
        replica.send((model, inputs))
        if not replica.poll(self._timeout + _GRACE_S):
            raise TimeoutError(f"no answer within {self._timeout + _GRACE_S:.0f} s")
        answer: Answer = replica.recv()
        return answer

    def _retry(self, calls: Sequence[Call]) -> None:
        """Puts calls of a replica that has ended first in the queue, unless another has ended in them before."""
        for call in reversed(calls):
            call.attempts += 1
            if call.attempts < _MOST_ATTEMPTS:
                with self._changed:
                    self._waiting.appendleft(call)
                    self._changed.notify()
            else:
                call.answer.set_exception(UnavailableError("replicas ended while they ran this request; try again"))
