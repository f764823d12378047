"""The fields of a manifest with their types and ranges: the schema that every reader of a manifest relies on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from .records import COMMAND_WORDS
from .schema import MOST, Closed, Length, Name, NotNegative, Nullable, Positive, Range, SchemaError, Text, check, shown

Address = Annotated[int, Range(0, 2**64 - 1)]
Count = Annotated[int, Range(1, 2**31 - 1)]
Word = Annotated[int, Range(-(2**31), 2**32 - 1)]


@dataclass(frozen=True)
class Bank:
    tag: Name
    base: Address
    bytes: Address


@dataclass(frozen=True)
class ComputeUnit:
    name: Name
    base: Address


@dataclass(frozen=True)
class Argument:
    name: Name
    kind: Literal["global", "scalar", "stream"]
    index: Annotated[int, Range(0, 2**16)]
    offset: Annotated[int, Range(0, 2**32 - 1)]
    bytes: Annotated[int, Range(0, 2**16)]
    type: Text = ""
    const: bool = False
    bank: Annotated[Name | None, Nullable()] = None
    same_as: Name | None = None
    output: bool = False


@dataclass(frozen=True)
class Stream:
    source: Name
    destination: Name
    depth: Count


@dataclass(frozen=True)
class Engine:
    """The sizes of :class:`xclbin_build.engine.Engine`; older files lack the last ones."""

    pixels: Count
    out_channels: Count
    element: Literal["int8", "bfloat16", "float32"]
    in_channels: Count = 16
    lanes: Count = 64
    window_rows: Count = 2048
    weight_steps: Count = 2048
    set_tiles: Count = 64
    taps: Count = 128
    port_bytes: Count = 64
    uram: bool = True
    vector_lanes: Annotated[int, Range(0, 1024)] = 0
    vector_depth: Count = 2048
    vector_blocks: Count = 64
    row_sums: bool = True
    partial_sums: bool = True
    activations: bool = False
    gather: bool = False
    casts: bool = False


Index = Annotated[int, Range(0, 2**16)]
Indices = Annotated[list[Index], Length(1)]


@dataclass(frozen=True)
class PeerArguments:
    """Arguments of each of the compute units that work together, by index; those for maps are one for each bank."""

    commands: Index
    count: Index
    weights: Index
    arena: Indices
    arena_residual: Indices
    arena_output: Indices


@dataclass(frozen=True)
class Peers:
    arguments: Annotated[PeerArguments, Closed()]
    barrier: Name
    page_bytes: Annotated[int, Range(64, 2**31 - 1)]


@dataclass(frozen=True)
class SynthesizedLoop:
    ii: Count
    depth: Annotated[Count | None, Nullable()] = None


@dataclass(frozen=True)
class Synthesized:
    """What C synthesis achieved of a kernel: periods in ns, and its pipelined loops by label."""

    target_ns: Positive
    estimated_ns: NotNegative
    loops: dict[str, SynthesizedLoop] = field(default_factory=dict)


@dataclass(frozen=True)
class KernelFields:
    name: Name
    lanes: bool
    cores: list[Name]
    opcodes: list[Name]
    compute_units: Annotated[list[ComputeUnit], Length(1)]
    args: list[Argument]
    weights: dict[str, list[Name]] = field(default_factory=dict)
    activations: dict[str, list[Name]] = field(default_factory=dict)
    engine: Annotated[Engine, Closed()] | None = None
    together: bool = False
    peers: Peers | None = None
    free_running: bool = False
    mailbox: Literal["in", "out", "both"] | None = None
    auto_restart: bool = False


@dataclass(frozen=True)
class CommandField:
    field: Name
    type: Literal["int32_t", "uint32_t", "float"]
    word: Annotated[int, Range(0, COMMAND_WORDS - 1)]
    count: Annotated[int, Range(1, COMMAND_WORDS)]


@dataclass(frozen=True)
class Platform:
    """Figures of the cost model, as the platform's file has them."""

    clock_mhz: Positive
    launch_us: Positive
    transfer_gbps: Positive
    ps_gflops: Positive
    ps_gbps: Positive
    ps_node_us: Positive
    name: Text = "unknown"
    description: Text = ""
    xsa: Text = ""
    bank_gbps: Positive | None = None
    resources: dict[str, Annotated[int, Range(0, MOST)]] = field(default_factory=dict)
    slrs: Annotated[int, Range(1, 64)] = 1


@dataclass(frozen=True)
class Bands:
    band: NotNegative
    link: NotNegative
    chain: NotNegative
    again: NotNegative
    count: NotNegative


@dataclass(frozen=True)
class Winograd:
    step: NotNegative
    weight: NotNegative
    exposed: NotNegative
    transform: NotNegative
    start: NotNegative


@dataclass(frozen=True)
class Tuning:
    slice_work: Annotated[float, Range(1, MOST)] | None = None
    memory_share: NotNegative | None = None
    bands: Bands | None = None
    winograd: Winograd | None = None


@dataclass(frozen=True)
class Manifest:
    """See xclbin_build/manifest.py for the meaning of each field."""

    manifest_version: Count
    command_version: Count
    target: Literal["emu", "sw_emu", "cycles", "hw_emu", "hw"]
    isa: Text
    recipe: Text
    platform: Platform
    tiles: dict[str, Count]
    banks: list[Bank]
    kernels: list[KernelFields]
    opcodes: dict[str, Annotated[int, Range(1, 2**31 - 1)]]
    enums: dict[str, dict[str, Word]]
    commands: dict[str, list[CommandField]]
    constants: dict[str, Word]
    plan: Text = ""
    multiplies: list[Text] = field(default_factory=list)
    tuning: Tuning | None = None
    streams: list[Stream] = field(default_factory=list)
    synthesis: dict[str, Synthesized] = field(default_factory=dict)


def check_manifest(manifest: dict[str, Any]) -> None:
    """Raises SchemaError for a field with another type or range, and for a name that refers to nothing."""
    check(manifest, Manifest, "")
    for name, record in manifest["commands"].items():
        for index, entry in enumerate(record):
            if entry["word"] + entry["count"] > COMMAND_WORDS:
                raise SchemaError(f"'commands.{name}[{index}]' ends behind word {COMMAND_WORDS}, the last of a command")
    _distinct([bank["tag"] for bank in manifest["banks"]], "banks")
    _distinct([kernel["name"] for kernel in manifest["kernels"]], "kernels")
    tags = {bank["tag"] for bank in manifest["banks"]}
    for number, kernel in enumerate(manifest["kernels"]):
        _check_kernel(kernel, f"kernels[{number}]", manifest, tags)


def _check_kernel(kernel: dict[str, Any], where: str, manifest: dict[str, Any], tags: set[str]) -> None:
    names = {argument["name"] for argument in kernel["args"]}
    _distinct([argument["name"] for argument in kernel["args"]], f"{where}.args")
    _distinct([str(argument["index"]) for argument in kernel["args"]], f"{where}.args' indices")
    _distinct([unit["name"] for unit in kernel["compute_units"]], f"{where}.compute_units")
    for index, argument in enumerate(kernel["args"]):
        field_ = f"{where}.args[{index}]"
        if argument["kind"] == "global" and argument.get("bank") not in tags:
            raise SchemaError(f"'{field_}.bank' is the unknown bank {shown(argument.get('bank'))}")
        if (argument["kind"] == "stream") != (argument["bytes"] == 0):
            raise SchemaError(f"'{field_}.bytes' is {argument['bytes']}, which only a stream has none of")
        if (other := argument.get("same_as")) is not None and other not in names:
            raise SchemaError(f"'{field_}.same_as' is the unknown argument {shown(other)}")
    for opcode in kernel["opcodes"]:
        for table in ("opcodes", "commands"):
            if opcode not in manifest[table]:
                raise SchemaError(f"'{where}.opcodes' has {shown(opcode)}, which is not in '{table}'")


def _distinct(names: list[str], where: str) -> None:
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise SchemaError(f"'{where}' has {shown(repeated)} twice")
