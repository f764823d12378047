"""A graph whose sizes change from call to call: lowered once for all sizes that its guards hold for, bound to each.

A call with sizes that no program's guards allow has the graph lowered again, with these sizes as hints; that is a
*variant*. A graph that sizes cannot say (numbers that are not sizes, sizes that data decides) is lowered for each set
of sizes by itself.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch.fx import GraphModule

from fpga_dynamo.codegen.eager import whole
from fpga_dynamo.errors import NotLoweredError
from fpga_dynamo.ir.sizes.graph import sized_graph, sources_of, symbol_values
from fpga_dynamo.ir.sizes.size import SizeError
from fpga_dynamo.lowering.tracing.specialise import specialised
from fpga_dynamo.runtime.calls.bind import Binder, Sizes
from fpga_dynamo.runtime.calls.executor import Executor
from fpga_dynamo.runtime.internal_errors import count, is_internal, or_else
from fpga_dynamo.runtime.observe.reproduction import Case
from fpga_dynamo.torch_internals.tracing import tensors_are_fake

log = logging.getLogger(__name__)

BOUND_SIZES = 64
"""Sets of sizes that a graph stays bound to, or lowered for where it is lowered for each."""

VARIANTS = 64
"""Programs that a graph has at most, each with guards of its own."""

T = TypeVar("T")


class _Recent(Generic[T]):
    """The values of the keys that were used last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._values: OrderedDict[Any, T] = OrderedDict()

    def get(self, key: Any) -> T | None:
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
            return found

    def put(self, key: Any, made: T) -> None:
        with self._lock:
            self._values[key] = made
            while len(self._values) > self._most:
                self._values.popitem(last=False)

    def drop(self, unwanted: Callable[[T], bool]) -> None:
        with self._lock:
            for key in [key for key, made in self._values.items() if unwanted(made)]:
                del self._values[key]


class Variant:
    """A program for all sizes that its guards hold for."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.binder = Binder(executor.program)


class Dynamic:
    """The graph as a callable, for all sizes. Re-entrant.

    make: an executor of a graph that is ready to be lowered; case: what a failure reports about the graph.
    """

    def __init__(self, module: GraphModule, make: Callable[[GraphModule], Executor], case: Case) -> None:
        self._module = module
        self._make = make
        self._case = case
        self._eager: Callable[..., Any] | None = None
        self._lock = threading.Lock()
        self.variants: list[Variant] = []
        self._bound: _Recent[tuple[Variant, Sizes]] = _Recent(BOUND_SIZES)
        self._single: _Recent[Executor] = _Recent(BOUND_SIZES)
        self.reason: str | None = None
        """Why the graph is lowered for each set of sizes; None if it is not."""
        try:
            sources = sources_of(module)
        except SizeError as error:
            self._give_up(error)
            sources = {}
        self._names, self._sources = list(sources), list(sources.values())

    def __call__(self, *args: Any) -> Any:
        """The graph's results; eager mode's where tensors are fake, or nested, each with a ragged size of its own."""
        if tensors_are_fake():
            return self._module(*args)
        if self._eager is not None:
            return self._eager(*args)
        if self.reason is None:
            values = symbol_values(self._sources, args)
            if any(isinstance(size, torch.SymInt) for size in values):
                return self._module(*args)
            found = self._bound.get(values)
            if found is None:
                found = self._bind(values)
            if found is not None:
                variant, sizes = found
                return variant.executor.run((*args, sizes.values), sizes.forms)
        if any(isinstance(a, torch.SymInt) for a in args):
            return self._module(*args)
        run = or_else(lambda: self._for_these_sizes(args), self._fall_back, self._case.called_with(args))
        return run(*args)

    def _fall_back(self, why: str) -> Callable[..., Any]:
        """From now on: what fails for some sizes is likely to for others."""
        self._eager = whole(self._module)
        return self._eager

    # --- all sizes at once --------------------------------------------------------------------------------------------

    def _bind(self, values: tuple[int, ...]) -> tuple[Variant, Sizes] | None:
        """A variant bound to the symbols' values, None if there can be none."""
        with self._lock:
            found = self._bound.get(values)
            if found is not None or self.reason is not None:
                return found
            variant = self._fitting(values)
            if variant is None:
                return None
            try:
                found = variant, variant.binder.bind(values)
            except Exception as error:  # as in _fitting
                self._give_up(error)
                return None
            self._bound.put(values, found)
            return found

    def _fitting(self, values: tuple[int, ...]) -> Variant | None:
        failed = []
        for variant in self.variants:
            guard = variant.binder.failed_guard(values)
            if guard is None:
                return variant
            failed.append(f"{guard} of {variant.executor.program.name}")
        try:
            variant = Variant(self._make(sized_graph(self._module, self._names, values)))
            guard = variant.binder.failed_guard(values)
            if guard is not None:
                raise SizeError(f"{guard} does not hold for the sizes that it was recorded at")
        except Exception as error:  # whatever sizes cannot do in somebody's pattern, plain numbers can
            self._give_up(error)
            return None
        program = variant.executor.program
        program.occasion = f"does not hold here: {'; '.join(failed)}" if failed else ""
        log.info("%s holds for all sizes with %s", program.name, ", ".join(map(str, variant.binder.guards)))
        self.variants.append(variant)
        if len(self.variants) > VARIANTS:
            oldest = self.variants.pop(0)
            self._bound.drop(lambda bound: bound[0] is oldest)
        return variant

    def _give_up(self, error: Exception) -> None:
        self.reason = str(error) or type(error).__name__
        expected = isinstance(error, (SizeError, NotLoweredError))
        if not expected and is_internal(error):
            count(error)
        log.log(
            logging.INFO if expected else logging.WARNING,
            "a graph is lowered for each set of sizes: %s",
            error,
            exc_info=not expected,
        )

    # --- each set of sizes by itself ----------------------------------------------------------------------------------

    def _for_these_sizes(self, args: Sequence[Any]) -> Callable[..., Any]:
        key = tuple((tuple(a.shape), a.stride()) if isinstance(a, torch.Tensor) else a for a in args)
        executor = self._single.get(key)
        if executor is None:
            with self._lock:
                executor = self._single.get(key)
                if executor is None:
                    executor = self._make(specialised(self._module, args))
                    executor.program.occasion = f"lowered for these sizes only: {self.reason}"
                    self._single.put(key, executor)
        return executor
