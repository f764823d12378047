"""The manifest: what host software knows of an xclbin. JSON in the USER_METADATA section, under the key "fpga_dynamo".

manifest_version  version of this layout
command_version   COMMAND_VERSION of the command.hpp that the kernels were built from

target            emu | sw_emu | cycles | hw_emu | hw

isa, plan         instruction set of an emulation's shared object, and the one that its tiles are planned for (by
                  default the same); "" for hardware

recipe, platform  name of the recipe; table of the platform (name, speeds for the cost model, resources)
tuning            figures of the emulator's host CPU, from the platform's file, for this plan; left out for a card

multiplies        instructions of an emulation's CPU that lowering has special commands for (toolchain/isa.py): names

tiles             {NAME: value} of the tile constants
banks             [{tag, base, bytes}]
kernels           [{name, lanes, cores, opcodes, weights, activations, compute_units: [{name, base}],
                    args: [{name, kind, index, offset, bytes, type, const, bank}]}]; bank is null for a scalar and
                  for a stream, which has 0 bytes of registers

                  weights, activations: {opcode: [NAME]}, the supported elements of packed weights and of operands in
                  the arena; without an entry, elements have four bytes

                  An engine has also `engine`, its sizes (xclbin_build/engine.py), and `same_as` in args that share the
                  buffer of another argument.

                  `free_running` is set if it has no control registers and runs from the load of the xclbin on.

                  `together` is set if its CUs share each command of a launch. The first CU is then started, with the
                  lists of all CUs one behind the other.

                  `peers` of hardware: the arguments of the kernel itself (those of feature maps by bank), the CU that
                  synchronizes the others, and the bytes of a page of feature maps.

synthesis         {kernel: {target_ns, estimated_ns, loops: {label: {ii, depth}}}} of a build with Vitis, from its
                  reports of C synthesis; the cost model uses the intervals of an engine's loops

streams           [{source, destination, depth}] between compute units, each end as UNIT.ARGUMENT

opcodes           {name: number}
enums             {enum: {NAME: value}} as command.hpp and user cores spell them
commands          {opcode: [{field, type, word, count}]}
constants         {NAME: value} of command.hpp
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from .design import Design, Kernel
from .errors import XclbinError
from .manifest_fields import check_manifest
from .peers import Peers
from .records import ELEMENT_OPERANDS
from .schema import SchemaError, shown

KEY = "fpga_dynamo"
MANIFEST_VERSION = 1
COMMAND_VERSION = 2  # newest command record that this package understands
TARGETS = ("emu", "sw_emu", "cycles", "hw_emu", "hw")
EMULATED = ("emu", "sw_emu", "cycles")  # compiled by g++, run by the emulator


def describe(design: Design, target: str, isa: str, plan: str = "", multiplies: Sequence[str] = ()) -> dict[str, Any]:
    """The manifest of a design built for `target`. multiplies: what an emulation's CPU does (toolchain/isa.py)."""
    tuning = design.platform.tuning_for(plan or isa)
    return {
        "manifest_version": MANIFEST_VERSION,
        "command_version": design.header.constants["COMMAND_VERSION"],
        "target": target,
        "isa": isa,
        "plan": plan or isa,
        "multiplies": list(multiplies),
        "recipe": design.recipe.name,
        "platform": design.platform.table(),
        **({"tuning": tuning} if tuning else {}),
        "tiles": dict(design.tiles),
        "banks": design.platform.bank_table(),
        "kernels": [_kernel(kernel) | _peers(kernel, design, target) for kernel in design.kernels],
        **({"streams": [asdict(stream) for stream in design.recipe.streams]} if design.recipe.streams else {}),
        "opcodes": dict(design.opcodes),
        "enums": {name: values for name, values in design.header.enums.items() if name != "opcode"},
        "commands": {
            name: [{"field": f.name, "type": f.type, "word": f.word, "count": f.count} for f in record.fields]
            for name, record in design.header.records.items()
        },
        "constants": dict(design.header.constants),
    }


def _kernel(kernel: Kernel) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "lanes": kernel.takes_commands,  # a plain kernel cannot be cut into slices
        "cores": [core.name for core in kernel.cores],
        "opcodes": list(kernel.opcodes),
        **{
            operand: {
                opcode: list(names) for core in kernel.cores for opcode, names in core.elements.get(operand, {}).items()
            }
            for operand in ELEMENT_OPERANDS
        },
        "compute_units": [{"name": unit.name, "base": unit.base} for unit in kernel.compute_units],
        **({"engine": asdict(kernel.engine)} if kernel.engine else {}),
        **({"together": True} if kernel.peers > 1 else {}),
        **({"free_running": True} if kernel.free_running else {}),
        **({"mailbox": kernel.mailbox} if kernel.mailbox else {}),
        **({"auto_restart": True} if kernel.auto_restart else {}),
        "args": [
            {
                "name": bound.argument.name,
                "kind": bound.argument.kind,
                "index": bound.index,
                "offset": bound.offset,
                "bytes": bound.argument.bytes,
                "type": bound.argument.type,
                "const": bound.argument.const,
                "bank": bound.bank,
                **({"same_as": bound.argument.same_as} if bound.argument.same_as else {}),
                **({"output": True} if bound.argument.output else {}),
            }
            for bound in kernel.arguments
        ],
    }


def _peers(kernel: Kernel, design: Design, target: str) -> dict[str, Any]:
    return {"peers": Peers.of(kernel, design).table()} if kernel.peers > 1 and target not in EMULATED else {}


def encode(manifest: dict[str, Any]) -> bytes:
    """The USER_METADATA section."""
    return json.dumps({KEY: manifest}, indent=1).encode()


def decode(section: bytes) -> dict[str, Any]:
    """The manifest in a USER_METADATA section.

    Raises XclbinError for a section of somebody else's, one whose versions are too new, or one that lacks a key.
    """
    try:
        document = json.loads(section)
    except (ValueError, RecursionError) as error:
        raise XclbinError(
            "the USER_METADATA section is not the JSON that xclbin-build writes; build the file again."
        ) from error
    manifest = document.get(KEY) if isinstance(document, dict) else None
    if not isinstance(manifest, dict):
        raise XclbinError(
            f"the USER_METADATA section has no '{KEY}' manifest; only files made by xclbin-build have one."
        )
    _check_version(manifest, "manifest_version", MANIFEST_VERSION)
    _check_version(manifest, "command_version", COMMAND_VERSION)
    try:
        check_manifest(manifest)
    except SchemaError as error:
        raise XclbinError(f"the manifest's {error}; build the file again.") from error
    return manifest


def _check_version(manifest: dict[str, Any], key: str, newest: int) -> None:
    version = manifest.get(key)
    if type(version) is not int or version < 1:
        raise XclbinError(f"the manifest's {key} is {shown(version)}, which is not a version; build the file again.")
    if version > newest:
        raise XclbinError(
            f"the file has {key} {shown(version)}, this software supports up to {newest}; update it or build the "
            "file again."
        )
