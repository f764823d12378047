"""Random models against eager: hypothesis draws and shrinks them, each failure becomes a script to read and run."""

from __future__ import annotations

import contextlib
import hashlib
import re
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
import torch
from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as hypothesis_seed
from hypothesis.strategies import SearchStrategy

from fpga_dynamo.errors import FpgaError, InternalError, NotLoweredError
from fpga_dynamo.runtime.observe import counters
from fpga_dynamo.testing.cache import empty_program_cache
from fpga_dynamo.testing.calls import Undecided, check_against_eager
from fpga_dynamo.testing.graphs import Graph, graphs
from fpga_dynamo.testing.reference import Mismatch
from fpga_dynamo.torch_internals.aot import aot_autograd
from fpga_dynamo.torch_internals.tensors import is_view
from xclbin_build import atomic_file


class _InTracedStrides(torch.fx.Interpreter):
    """Runs a graph in eager, but gives each value that is no view the strides that tracing gave it.

    An instance runs once: it keeps the values of the symbols that are inputs of the graph.
    """

    def __init__(self, graph: torch.fx.GraphModule) -> None:
        super().__init__(graph)
        self._symbols: dict[Any, int] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        actual = super().run_node(n)
        traced = n.meta.get("val")
        if n.op == "placeholder" and isinstance(traced, torch.SymInt):
            self._symbols[traced.node.expr] = actual
        if n.op != "call_function" or not isinstance(actual, torch.Tensor) or not isinstance(traced, torch.Tensor):
            return actual
        strides = tuple(map(self._number, traced.stride()))
        if is_view(actual) or actual.stride() == strides:
            return actual
        return torch.empty_strided(actual.shape, strides, dtype=actual.dtype).copy_(actual)

    def _number(self, size: int | torch.SymInt) -> int:
        return int(size.node.expr.xreplace(self._symbols)) if isinstance(size, torch.SymInt) else size


def _as_traced(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
    return lambda *given: _InTracedStrides(graph).run(*given)


# Backends that compute nothing themselves. What fails there in the same way is no backend's fault: tracing changes
# what eager does, or torch predicts other strides than its kernels give (batch norm of a transposed image).
CONTROLS: tuple[str | Callable[..., Any], ...] = ("aot_eager", aot_autograd(fw_compiler=_as_traced))


MAX_FAILURES = 5


@dataclass(frozen=True)
class Failure:
    """A model whose compiled answer is wrong, or that does not compile, as small as it could be made."""

    message: str
    script: Path | None
    seed: int
    examples: int
    """Of the run that drew it: together they draw it again."""
    graph: Graph | None = None

    def __str__(self) -> str:
        text = f"{self.message} (--seed {self.seed} --examples {self.examples})"
        return f"{text}\n    {self.script}" if self.script else text


@dataclass
class FuzzReport:
    """What `run_fuzz` saw. `examples` counts compared models; the skipped ones come on top.

    on_card: those with a launch; from_disk: those whose second compilation found the program of the first;
    fallbacks: launches that ran in eager, given integers that the card cannot hold, or results that are not finite.
    """

    examples: int = 0
    on_card: int = 0
    from_disk: int = 0
    fallbacks: int = 0
    undecided: int = 0
    torch_differs: int = 0
    operators: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def __str__(self) -> str:
        skipped = f"{self.undecided} undecided by rounding, {self.torch_differs} where torch itself differs from eager"
        text = (
            f"{self.examples} examples, {self.on_card} with work on the card, "
            f"{self.from_disk} compiled again from disk, {len(self.failures)} failures, "
            f"{self.fallbacks} launches taken over by eager ({skipped})"
        )
        for failure in self.failures:
            text += f"\n  {failure}"
        return text


def summary(error: BaseException) -> str:
    """The cause in one line: compiler errors are unwrapped, messages cut to their first line."""
    cause = getattr(error, "inner_exception", None) or error
    lines = str(cause).strip().splitlines()
    text = lines[0] if lines else ""
    return text if isinstance(cause, Mismatch) else f"{type(cause).__name__}: {text}"


def kind(message: str) -> str:
    """What a failure's summary says without its numbers: what is wrong, and in which way."""
    said = re.sub(r"^call \d+: |\bthe |-?\b(\d[\w.+-]*|nan|inf)\b", "", message)
    return " ".join(re.split(r"[(\[:]", said)[0].split())


def script(
    graph: Graph, backend: str, options: Mapping[str, Any] | None, message: str, winograd: int | None = None
) -> str:
    """A stand-alone program that shows one failure."""
    arguments = [f"backend={backend!r}"]
    if options:
        arguments.append(f"options={dict(options)!r}")
    arguments.append(f"calls={graph.calls}")
    arguments += [f"{name}=True" for name, wanted in graph.gradients.items() if wanted]
    if graph.dynamic:
        arguments.append("dynamic=True")
    if graph.dtype != "float32":
        arguments.append(f"dtype=torch.{graph.dtype}")
    imports = [
        "from fpga_dynamo.testing.cache import empty_program_cache",
        "from fpga_dynamo.testing.calls import check_against_eager",
    ]
    if backend == "fpga":
        arguments.append("warm=True")
    if winograd is not None:
        arguments.append("winograd=True")
    needed = "\n    ".join(imports)
    comment = "\n".join(f"# {line}".rstrip() for line in message.splitlines())
    return (
        f"# Found by fpga-dynamo fuzz:\n{comment}\n"
        f"{graph.source()}\n\n"
        'if __name__ == "__main__":\n'
        f"    {needed}\n\n"
        "    with empty_program_cache():\n"
        f"        check_against_eager(Model(), make_inputs, {', '.join(arguments)})\n"
        '    print("as good as eager")\n'
    )


def _check(
    graph: Graph,
    backend: str | Callable[..., Any],
    options: Mapping[str, Any] | None,
    winograd: int | None,
) -> None:
    torch.compiler.reset()  # hundreds of classes share one code location: never meet the recompile limit
    model, make_inputs = graph.define()
    with empty_program_cache():
        check_against_eager(
            model(),
            make_inputs,
            backend=backend,
            options=options,
            calls=graph.calls,
            winograd=winograd is not None,
            warm=backend == "fpga",
            dynamic=graph.dynamic or None,
            dtype=getattr(torch, graph.dtype),
            **graph.gradients,
        )


def _torch_differs(graph: Graph, failure: Exception, winograd: int | None) -> bool:
    """True if a control fails in the same way."""
    for control in CONTROLS:
        try:
            _check(graph, control, None, winograd)
        except Exception as error:
            if type(error) is type(failure) and kind(summary(error)) == kind(summary(failure)):
                return True
    return False


class _Found(Exception):
    """Carries a failure out of hypothesis; one type, so that shrinking may change the message but not lose the bug."""


class _Campaign:
    """One run of the fuzzer: the counters and the file that holds the model now being run."""

    def __init__(
        self,
        drawn: tuple[int, int],
        backend: str,
        options: Mapping[str, Any] | None,
        out_dir: Path | None,
        winograd: int | None,
    ) -> None:
        self.drawn = drawn
        self.backend = backend
        self.options = options
        self.winograd = winograd
        self.out_dir = out_dir
        self.report = FuzzReport()
        self.first: tuple[Graph, str] | None = None
        self.smallest: tuple[Graph, str] | None = None
        if out_dir is not None:
            out_dir.mkdir(parents=True, exist_ok=True)

    @property
    def shrinking(self) -> bool:
        return self.first is not None

    @property
    def _running(self) -> Path | None:
        return self.out_dir / "running.py" if self.out_dir is not None else None

    def example(self, graph: Graph) -> None:
        before = counters.stats()
        if self._running is not None:
            # Stays behind if the process dies, which no except clause sees.
            atomic_file.write(self._running, self._script(graph, "the process died while it ran this"))
        try:
            _check(graph, self.backend, self.options, self.winograd)
        except Undecided:
            self.report.undecided += not self.shrinking
            hypothesis.reject()
        except Exception as error:
            if _torch_differs(graph, error, self.winograd):
                self.report.torch_differs += not self.shrinking
                hypothesis.reject()
            self.smallest = graph, summary(error)
            self.first = self.first or self.smallest
            detail = "".join(traceback.format_exception(error)[-1:]).strip()
            raise _Found(detail) from error
        finally:
            if self._running is not None:
                self._running.unlink(missing_ok=True)
        if not self.shrinking:
            after = counters.stats()
            self.report.examples += 1
            self.report.on_card += after["pl_launches"] > before["pl_launches"]
            self.report.from_disk += after["programs_loaded"] > before["programs_loaded"]
            self.report.fallbacks += int(after["ps_fallbacks"] - before["ps_fallbacks"])
            self.report.operators.update(set(graph.operators))

    def _script(self, graph: Graph, message: str) -> str:
        return script(graph, self.backend, self.options, message, self.winograd)

    def keep_failure(self, *, flaky: bool = False) -> None:
        """The smallest model that failed; and the first one, if that failed in another way or not each time."""
        assert self.first is not None and self.smallest is not None
        self._keep(*self.smallest)
        if self.first != self.smallest and (flaky or kind(self.first[1]) != kind(self.smallest[1])):
            self._keep(*self.first)
        self.first = self.smallest = None

    def _keep(self, graph: Graph, message: str) -> None:
        path = None
        if self.out_dir is not None:
            name = hashlib.sha256(graph.source().encode()).hexdigest()[:8]
            path = self.out_dir / f"fuzz_{'_'.join(dict.fromkeys(graph.operators[:4])) or 'empty'}_{name}.py"
            atomic_file.write(path, self._script(graph, message))
        self.report.failures.append(Failure(message, path, *self.drawn, graph))


def refuse_wrong_options(options: Mapping[str, Any] | None, backend: str = "fpga") -> None:
    """Raises the error of a compilation with these options that is the user's mistake, not a model's failure."""
    torch.compiler.reset()
    try:
        torch.compile(torch.relu, backend=backend, options=dict(options) if options else None)(torch.ones(1))
    except Exception as error:
        cause = getattr(error, "inner_exception", None) or error  # Dynamo wraps what a backend raises
        if isinstance(cause, FpgaError) and not isinstance(cause, (InternalError, NotLoweredError)):
            raise cause from None


def run_fuzz(
    examples: int,
    seed: int,
    backend: str = "fpga",
    options: Mapping[str, Any] | None = None,
    out_dir: str | Path | None = None,
    *,
    max_failures: int = MAX_FAILURES,
    max_instructions: int = 12,
    winograd: int | None = None,
    dtype: str = "float32",
    progress: Callable[[int], None] | None = None,
) -> FuzzReport:
    """Compares `examples` random models with eager; the same seed draws the same models.

    Raises what a wrong option raises, before any model is drawn.
    With our backend each is compiled twice, the second time from what the first left in the disk cache, with the same
    bits as result.
    Failures are shrunk and, with `out_dir`, written there as scripts, as found too if the small one fails in another
    way; after `max_failures` of them the run ends. A launch that fails is a failure, whatever eager makes of it.
    Examples whose answer depends on rounding, and those where torch itself differs from eager, are counted
    apart and replaced by others. `progress` is called with the number of examples done.

    Winograd's method is off, because inputs hold NaN and infinities. It propagates them to more elements than eager
    mode does, so their places could not be compared. With `winograd`, a size of tiles (2 or 4), all models begin with a
    convolution that is computed by it, and those with a NaN or an infinity are among the undecided. Parameters and
    floating inputs are of `dtype`: "float32", "bfloat16" or "float16".
    """
    if backend == "fpga":
        options = {"winograd": winograd or False, **(options or {})}
    refuse_wrong_options(options, backend)
    campaign = _Campaign((seed, examples), backend, options, Path(out_dir) if out_dir is not None else None, winograd)
    with _quiet_and_single_threaded():
        drawn = graphs(max_instructions, winograd=winograd is not None, dtype=dtype)
        _run(campaign, drawn, examples, seed, max_failures, progress)
    return campaign.report


def search(examples: int) -> settings:
    """Settings of a test that draws so many examples and shrinks what fails; nothing is kept on disk."""
    return settings(
        max_examples=examples,
        phases=(Phase.generate, Phase.shrink),
        database=None,
        deadline=None,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


_FAULTS = ("a launch failed", "the compiled program")
"""How warnings begin that name a fault of ours, though the model's answer is right."""


@contextlib.contextmanager
def _quiet_and_single_threaded() -> Iterator[None]:
    """On tensors this small a second thread costs more than it saves; and a variance of one element is meant."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for fault in _FAULTS:
                warnings.filterwarnings("error", fault, RuntimeWarning)
            yield
    finally:
        torch.set_num_threads(threads)


def _run(
    campaign: _Campaign,
    drawn: SearchStrategy[Graph],
    examples: int,
    seed: int,
    max_failures: int,
    progress: Callable[[int], None] | None,
) -> None:
    report = campaign.report
    round_number = 0
    while report.examples < examples and len(report.failures) < max_failures:

        def one(graph: Graph) -> None:
            campaign.example(graph)
            if progress is not None:
                progress(report.examples)

        before = report.examples
        body = search(examples - report.examples)(hypothesis_seed(seed + round_number)(hypothesis.given(drawn)(one)))
        try:
            body()
        except _Found:
            campaign.keep_failure()
        except hypothesis.errors.Flaky:
            if campaign.first is not None:  # else only the drawing of a model was: on with the next seed
                campaign.keep_failure(flaky=True)
        except hypothesis.errors.Unsatisfiable:
            break
        if report.examples == before and not report.failures:
            break
        round_number += 1
