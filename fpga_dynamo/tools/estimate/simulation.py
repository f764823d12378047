"""Engine programs on the cycle simulator (the dataflow sources) or the emulator (the CPU schedule): the same bits.

Values cross as the host would hand them over: maps written before a launch and read behind it; what the engine
does not take runs in eager.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.fx import Interpreter, Node
from torch.fx.node import map_arg

import xclbin_build
from fpga_dynamo.codegen.engine.maps import DTYPES, Map
from fpga_dynamo.codegen.engine.sizes import LINE_BYTES
from fpga_dynamo.codegen.engine.target import EngineTarget
from fpga_dynamo.errors import DeviceError
from fpga_dynamo.ir.graph import evaluated, value
from fpga_dynamo.runtime.cards.card import utf8_path
from fpga_dynamo.runtime.drivers import emulated as pyxrt
from fpga_dynamo.runtime.observe.card_time import count_of
from fpga_dynamo.tools.estimate.accuracy import Error, errors
from fpga_dynamo.tools.estimate.program import EngineProgram
from fpga_dynamo.tools.estimate.simulator import Simulator
from xclbin_build.errors import BuildError

_POISON = 0xA5
_TO_CARD = pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE
_FROM_CARD = pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE
_COMPLETED = pyxrt.ert_cmd_state.ERT_CMD_STATE_COMPLETED
_ARGUMENTS = {"commands": 0, "arena": 2, "weights": 3}
_HOUR_MS = 3_600_000

Session = Callable[[Sequence[bytes], Tensor], Tensor]
"""Runs a launch: the list of each unit and the bytes of the maps before, to the bytes behind it."""


@dataclass(frozen=True)
class Counted:
    """What a run on the cycle simulator gave.

    ends: the cycle in which each command of each launch ends, counted from the first process's first.
    moved: bytes of all ports but the commands'.
    stalls: cycles that the arrays waited, by cause.
    differences: of each int8 value that differs from eager mode's: elements that differ, largest difference.
    errors: of each floating-point value.
    """

    ends: tuple[tuple[int, ...], ...]
    moved: int
    stalls: Mapping[str, int]
    differences: Mapping[str, tuple[int, int, int]]
    values: int
    errors: Mapping[str, Error] = field(default_factory=dict)


@dataclass
class EngineCard:
    """An engine of a recipe on the emulator. simulated: on the cycle simulator, which counts its cycles. Each
    session loads the card with it, so engines of several recipes may be used in turns."""

    recipe: str | Path
    platform: str | Path
    simulated: bool = True
    reports: list[dict[str, Any]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        """Raises DeviceError if the sources do not compile, or the platform's memory cannot be counted."""
        try:
            self._path = xclbin_build.cached(self.recipe, "cycles" if self.simulated else "emu", platform=self.platform)
        except BuildError as error:
            raise DeviceError(str(error)) from error
        (kernel,) = xclbin_build.read(self._path).manifest["kernels"]
        self._name = kernel["name"]
        self._device = pyxrt.device(0)

    def buffer(self, name: str, data: Tensor) -> Any:
        """A buffer of the card for an argument, with uint8 data in it."""
        made = pyxrt.bo(self._device, data.numel(), pyxrt.bo.flags.normal, self._kernel.group_id(_ARGUMENTS[name]))
        made.write(data.numpy(), 0)
        made.sync(_TO_CARD, data.numel(), 0)
        return made

    def session(self, weights: Tensor, region: Tensor) -> Session:
        """What runs launches beside these weights, with maps of so many bytes as `region`, until the card is loaded
        with something else."""
        uuid = self._load()  # does nothing where this is what it is loaded with
        self._kernel = pyxrt.kernel(self._device, uuid, self._name)
        constants, arena = self.buffer("weights", weights), self.buffer("arena", region)

        def launch(lists: Sequence[bytes], maps: Tensor) -> Tensor:
            arena.write(maps.numpy(), 0)
            arena.sync(_TO_CARD, maps.numel(), 0)
            self._launch(lists[0], arena, constants)
            arena.sync(_FROM_CARD, maps.numel(), 0)
            found = torch.from_numpy(arena.read(maps.numel(), 0).copy()).view(torch.uint8)
            status = found[:8].view(torch.int32)
            if int(status[0]) != 0:
                raise DeviceError(f"command {int(status[1])} has an opcode that the engine does not support")
            return found

        return launch

    def _load(self) -> Any:
        with utf8_path(self._path) as name:
            return self._device.load_xclbin(name)

    def _launch(self, commands: bytes, arena: Any, weights: Any) -> None:
        """Runs a list. Raises DeviceError if it does not come to its end."""
        words = torch.frombuffer(bytearray(commands), dtype=torch.uint8)
        buffer = self.buffer("commands", words)
        run = self._kernel(buffer, len(commands) // 256, arena, weights, arena, arena)
        state = run.wait(_HOUR_MS)
        if state != _COMPLETED:
            raise DeviceError(f"the engine did not run to its end: {getattr(run, 'error', state)}")
        if self.simulated:
            self.reports.append(json.loads(run.counters))


@dataclass
class SharedCard:
    """Engines of one card that share each command, in the simulator; reports: as of :class:`EngineCard`."""

    engine: EngineTarget
    platform: str
    reports: list[dict[str, Any]] = field(default_factory=list, init=False)

    def session(self, weights: Tensor, region: Tensor) -> Session:
        """What runs launches; each unit has these weights. Raises DeviceError if the sources do not compile."""
        engine, mhz = self.engine, self.engine.platform.clock_hz / 1e6
        try:
            simulator = Simulator(engine.sizes, self.platform, mhz, engine.units)
        except BuildError as error:
            raise DeviceError(str(error)) from error

        def launch(lists: Sequence[bytes], maps: Tensor) -> Tensor:
            report, found = simulator.launch(lists, maps, [weights] * engine.units)
            self.reports.append(report)
            return found

        return launch


class EngineRun:
    """A call of a program on a card. inputs: of each placeholder what it is."""

    def __init__(self, program: EngineProgram, card: EngineCard | SharedCard, inputs: Mapping[Node, Any]) -> None:
        self.program, self.card = program, card
        self._dtype = DTYPES[program.engine.sizes.element_bytes]
        self._values: dict[Node, Any] = dict(inputs)
        self._launched = 0
        self._region = torch.full((program.lists.maps.lines * LINE_BYTES,), _POISON, dtype=torch.uint8)
        self._launch_on = card.session(packed(program, inputs), self._region)

    def results(self) -> Any:
        """What the graph returns, in its structure."""
        output = next(node for node in self.program.graph.module.graph.nodes if node.op == "output")
        return map_arg(output.args[0], self.value)

    def value(self, node: Node) -> Any:
        """A value, from the card where an engine's command makes it, else by eager."""
        waiting = [node]
        while waiting:
            at = waiting[-1]
            missing = [arg for arg in self._needs(at) if arg not in self._values]
            if at in self._values:
                waiting.pop()
            elif missing:
                waiting += missing
            else:
                waiting.pop()
                self._values[at] = self._computed(at)
        return self._values[node]

    def _needs(self, node: Node) -> list[Node]:
        if node not in self.program.made:
            return node.all_input_nodes
        launch = self.program.made[node][1]
        given = self.program.given.items()
        return [node for node, maps in given if any(of.at is not None and of.launch <= launch for of in maps)]

    def _computed(self, node: Node) -> Any:
        if node in self.program.made:
            view, launch = self.program.made[node]
            while self._launched <= launch:
                self._launch()
            of = view.buffer
            assert isinstance(of, Map) and of.at is not None
            fake = value(node)
            content = self._region[of.at * LINE_BYTES : (of.at + of.lines) * LINE_BYTES].view(fake.dtype)
            found = of.blocked(fake.dtype, view=view).seen(content, tuple(view.shape))
            return torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype).copy_(found)
        if node.op == "get_attr":
            return self.program.graph.constant(node)
        return evaluated(node, self._values)

    def _launch(self) -> None:
        number = self._launched
        for node, of in ((node, of) for node, maps in self.program.given.items() for of in maps):
            if of.at is not None and of.launch == number:
                filling = self.program.fillings[node]
                data = of.blocked(value(node).dtype, filling).laid_out(self._values[node]).view(torch.uint8)
                self._region[of.at * LINE_BYTES : of.at * LINE_BYTES + data.numel()] = data
        launch = self.program.lists.launches[number]
        units = range(self.program.engine.units)
        lists = [b"".join(emitted.commands[unit].words() for emitted in launch) for unit in units]
        self._region = self._launch_on(lists, self._region)
        self._launched += 1


def counted(program: EngineProgram, card: EngineCard | SharedCard, inputs: Mapping[Node, Any]) -> Counted:
    """Runs a program on the cycle simulator, and compares every value that its commands compute with eager mode's."""
    run = EngineRun(program, card, inputs)
    run.results()
    is_float = program.engine.sizes.is_float
    found = {} if is_float else differences(program, run, inputs)
    apart = errors(program, run.value, inputs) if is_float else {}
    ends, stalls, moved = [], dict[str, int](), 0
    for report in card.reports[-len(program.lists.launches) :]:
        ends.append(count_of(report).ends)
        for process in report["processes"]:
            if process["process"].rpartition("/")[2] == "mac_array":
                for cause, cycles in process["stalls"].items():
                    stalls[cause] = stalls.get(cause, 0) + cycles
        moved += sum(port["bytes"] for port in report["ports"] if not port["port"].endswith("commands"))
    return Counted(tuple(ends), moved, stalls, found, len(program.made), apart)


def differences(program: EngineProgram, run: EngineRun, inputs: Mapping[Node, Any]) -> dict[str, tuple[int, int, int]]:
    """For each value of the engine that differs from eager mode's: elements that differ, elements, largest difference.

    The reference is the whole graph in eager mode, so a difference propagates to the layers behind it.
    """
    wanted = set(program.made)
    found: dict[str, tuple[int, int, int]] = {}

    class _Compare(Interpreter):
        def run_node(self, n: Node) -> Any:
            value = super().run_node(n)
            if n in wanted:
                apart = (run.value(n).int() - value.int()).abs()
                if int(apart.max()):
                    found[n.name] = (int((apart != 0).sum()), apart.numel(), int(apart.max()))
            return value

    placeholders = [node for node in program.graph.module.graph.nodes if node.op == "placeholder"]
    with torch.no_grad():
        _Compare(program.graph.module).run(*(inputs[node] for node in placeholders))
    return found


def packed(program: EngineProgram, tensors: Mapping[Node, Any]) -> Tensor:
    """The weights' region. Raises NotExactError for parameters that the engine's integers cannot hold."""
    region = torch.full((program.lists.weights.lines * LINE_BYTES,), _POISON, dtype=torch.uint8)
    with torch.no_grad():
        for line, buffer in program.lists.packs.items():
            content = buffer.pack.build(tensors).view(torch.uint8)
            region[line * LINE_BYTES : line * LINE_BYTES + content.numel()] = content
    return region
