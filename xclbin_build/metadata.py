"""The textual sections of an xclbin: XML that XRT reads arguments from, JSON that xclbinutil prints kernels from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree as xml

from .axlf import Axlf, Mode, Section
from .design import CU_RANGE, BoundArgument, Design, Kernel
from .manifest import describe, encode
from .sections import clock_topology, connectivity, ip_layout, mem_topology

_CONTROL_PORT = "S_AXI_CONTROL"
_POINTER_RANGE = "0xFFFFFFFFFFFFFFFF"
_SEQUENCER_BITS = 512
_QUALIFIERS = {"scalar": "0", "global": "1", "stream": "4"}
MODES = {"emu": Mode.SW_EMU, "sw_emu": Mode.SW_EMU, "cycles": Mode.SW_EMU, "hw_emu": Mode.HW_EMU, "hw": Mode.FLAT}
_XML_TARGETS = {"emu": "csim", "sw_emu": "csim", "cycles": "csim", "hw_emu": "hw_em", "hw": "bitstream"}


def container(
    design: Design, target: str, isa: str, plan: str, bitstream: bytes, multiplies: Sequence[str] = ()
) -> Axlf:
    """Everything that goes into the xclbin of a design whose compiled kernels are `bitstream`."""
    topology, connections = mem_topology(design), connectivity(design)
    sections = {
        Section.BITSTREAM: bitstream,
        Section.EMBEDDED_METADATA: embedded_metadata(design, target),
        Section.IP_LAYOUT: ip_layout(design),
        Section.MEM_TOPOLOGY: topology,
        Section.CONNECTIVITY: connections,
        Section.CLOCK_FREQ_TOPOLOGY: clock_topology(design),
        Section.BUILD_METADATA: build_metadata(design, target),
        # Every bank is a group of its own, so groups and banks have the same indices.
        Section.GROUP_TOPOLOGY: topology,
        Section.GROUP_CONNECTIVITY: connections,
        Section.USER_METADATA: encode(describe(design, target, isa, plan, multiplies)),
    }
    return Axlf({int(kind): data for kind, data in sections.items()}, int(MODES[target]), design.platform.xsa)


def embedded_metadata(design: Design, target: str) -> bytes:
    """The XML that XRT reads kernels, arguments and address ranges from."""
    vendor, board, name, version = _platform_words(design.platform.xsa)
    mhz = f"{design.platform.speeds['clock_mhz']:g}MHz"
    project = xml.Element("project", name=design.recipe.name)
    platform = xml.SubElement(project, "platform", vendor=vendor, boardid=board, name=name, featureRomTime="0")
    xml.SubElement(platform, "version", major=version, minor="1")
    xml.SubElement(platform, "description").text = design.platform.description
    device = xml.SubElement(platform, "device", name="fpga0", fpgaDevice=design.platform.part, addrWidth="0")
    units = str(sum(len(kernel.compute_units) for kernel in design.kernels))
    core = xml.SubElement(
        device, "core", name="OCL_REGION_0", target=_XML_TARGETS[target], type="clc_region", clockFreq=mhz,
        numComputeUnits=units,
    )  # fmt: skip
    clocks = xml.SubElement(core, "kernelClocks")
    for port in ("DATA_CLK", "KERNEL_CLK"):
        xml.SubElement(clocks, "clock", port=port, frequency=mhz)
    for kernel in design.kernels:
        _kernel_element(core, kernel)
    for stream in design.recipe.streams:  # for the emulator in a process of its own
        ends = {"source": stream.source, "destination": stream.destination}
        xml.SubElement(core, "stream", attrib=ends, depth=str(stream.depth))
    xml.indent(project)
    return xml.tostring(project, encoding="UTF-8", xml_declaration=True)


def _kernel_element(core: xml.Element, kernel: Kernel) -> None:
    element = xml.SubElement(
        core, "kernel", name=kernel.name, language="c", vlnv=f"xilinx.com:hls:{kernel.name}:1.0", attributes="",
        hash="",
        preferredWorkGroupSizeMultiple="0", workGroupSize="1", debug="false",
        interrupt="false" if kernel.free_running else "true",
        hwControlProtocol="ap_ctrl_none" if kernel.free_running else "ap_ctrl_hs",
    )  # fmt: skip
    if kernel.mailbox:  # in XRT's words
        element.set("mailbox", "inout" if kernel.mailbox == "both" else kernel.mailbox)
    if kernel.auto_restart:
        element.set("countedAutoRestart", "1")
    xml.SubElement(element, "module", name="OCL_REGION_0")
    for port in _ports(kernel):
        xml.SubElement(
            element, "port", name=port["name"], mode=port["mode"], range=port["range"], dataWidth=port["data_width"],
            portType=port["port_type"], base="0x0",
        )  # fmt: skip
    for bound in kernel.arguments:
        size = hex(bound.argument.bytes)
        xml.SubElement(
            element, "arg", name=bound.argument.name, addressQualifier=_QUALIFIERS[bound.argument.kind],
            id=str(bound.index), port=_port(kernel, bound), size=size, offset=_offset(bound), hostOffset="0x0",
            hostSize=size,
            type=_type(bound),
        )  # fmt: skip
    for tag in ("compileWorkGroupSize", "maxWorkGroupSize"):
        xml.SubElement(element, tag, x="1", y="1", z="1")
    for unit in kernel.compute_units:
        instance = xml.SubElement(element, "instance", name=unit.name)
        if not kernel.free_running:
            xml.SubElement(instance, "addrRemap", base=hex(unit.base), range=hex(CU_RANGE), port=_CONTROL_PORT)


def build_metadata(design: Design, target: str) -> bytes:
    """The JSON that `xclbinutil --info` prints kernels and compute units from."""
    kernels = [
        {
            "name": kernel.name,
            "language": "c",
            "ports": _ports(kernel),
            "arguments": [
                {
                    "name": bound.argument.name,
                    "address_qualifier": _QUALIFIERS[bound.argument.kind],
                    "id": str(bound.index),
                    "port": _port(kernel, bound),
                    "size": hex(bound.argument.bytes),
                    "offset": _offset(bound),
                    "type": _type(bound),
                }
                for bound in kernel.arguments
            ],
            "instances": [{"name": unit.name} for unit in kernel.compute_units],
        }
        for kernel in design.kernels
    ]
    vendor, board, name, version = _platform_words(design.platform.xsa)
    device = {"name": board, "vendor": vendor, "part": design.platform.part}
    platform = {"vendor": vendor, "board_id": board, "name": name, "version": {"major": version, "minor": "1"}}
    generated = {"name": "xclbin-build", "version": "1", "cl": "0", "time_stamp": "-", "options": f"--target {target}"}
    document = {
        "schema_version": {"major": "1", "minor": "0", "patch": "0"},
        "build_metadata": {
            "dsa": platform | {"generated_by": generated, "board": device},
            "xclbin": {
                "generated_by": generated,
                "user_regions": [{"name": "OCL_REGION_0", "type": "clc_region", "kernels": kernels}],
            },
        },
    }  # fmt: skip
    return json.dumps(document, indent=1).encode()


def _ports(kernel: Kernel) -> list[dict[str, Any]]:
    """The control port, and a memory port for each pointer."""
    control = {
        "name": _CONTROL_PORT,
        "mode": "slave",
        "range": "0x1000",
        "data_width": "32",
        "port_type": "addressable",
    }
    bits = str(_SEQUENCER_BITS if kernel.takes_commands else 32)
    pointers = [bound for bound in kernel.arguments if bound.bank]
    streams = [bound for bound in kernel.arguments if bound.argument.kind == "stream"]
    ports = [] if kernel.free_running else [control]
    ports += [
        control | {"name": _port(kernel, bound), "mode": "master", "range": _POINTER_RANGE, "data_width": bits}
        for bound in pointers
    ]
    return ports + [
        control | {"name": bound.argument.name, "mode": "read_write", "range": "", "port_type": "stream"}
        for bound in streams
    ]


def _port(kernel: Kernel, bound: BoundArgument) -> str:
    if bound.argument.kind == "stream":
        return bound.argument.name
    if bound.bank is None:
        return _CONTROL_PORT
    return f"M_AXI_GMEM{[other.index for other in kernel.arguments if other.bank].index(bound.index)}"


def _offset(bound: BoundArgument) -> str:
    return "0x0" if bound.argument.kind == "stream" else hex(bound.offset)


def _type(bound: BoundArgument) -> str:
    return bound.argument.type + ("*" if bound.bank else "&" if bound.argument.output else "")


def _platform_words(xsa: str) -> tuple[str, str, str, str]:
    """Vendor, board, name and version of a platform name such as xilinx_u250_gen3x16_xdma_4_1_202210_1."""
    words = xsa.split("_")
    if len(words) < 4:
        return "none", xsa, xsa, "0"
    return words[0], words[1], "_".join(words[2:-2]) or words[1], words[-2]
