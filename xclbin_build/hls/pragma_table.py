"""What each `#pragma HLS` accepts, options with a value and words: UG1399 of 2022.2 to 2026.1, and older spellings."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Kind:
    """A pragma. options: names of options with a value. words: options without one. values: those that an option
    accepts, where they are words."""

    options: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    values: dict[str, frozenset[str]] = field(default_factory=dict)


def _kind(options: str = "", words: str = "", **values: str) -> Kind:
    chosen = {name: frozenset(text.split()) for name, text in values.items()}
    return Kind(frozenset(options.split()) | chosen.keys(), frozenset(words.split()), chosen)


_MODES = (
    "m_axi s_axilite axis ap_none ap_stable ap_vld ap_ovld ap_ack ap_hs ap_auto ap_memory bram ap_fifo ap_bus "
    "ap_ctrl_none ap_ctrl_hs ap_ctrl_chain"
)
_BANKS = "block cyclic complete"
_BOOLEAN = "true false 1 0"

KINDS = {
    "aggregate": _kind("variable", "", compact="bit byte none auto"),
    "alias": _kind("ports distance offset"),
    "allocation": _kind("instances limit", "function operation core", type="function operation core"),
    "array_map": _kind("variable instance offset", "horizontal vertical"),
    "array_partition": _kind("variable factor dim", f"{_BANKS} off", type=_BANKS),
    "array_reshape": _kind("variable factor dim", f"{_BANKS} object off", type=_BANKS),
    "array_stencil": _kind("variable", "off"),
    "bind_op": _kind("variable op impl latency"),
    "bind_storage": _kind(
        "variable latency", "", type="fifo ram_1p ram_1wnr ram_2p ram_s2p ram_t2p rom_1p rom_2p rom_np",
        impl="auto bram bram_ecc lutram uram uram_ecc srl memory",
    ),
    "cache": _kind("port lines depth ways users rewind"),
    "data_pack": _kind("variable instance", "struct_level field_level"),
    "dataflow": _kind("interval", "disable_start_propagation"),
    "dependence": _kind(
        "variable distance", "array pointer inter intra raw war waw true false", **{"class": "array pointer"},
        type="inter intra", direction="raw war waw", dependent=_BOOLEAN,
    ),
    "disaggregate": _kind("variable"),
    "expression_balance": _kind("", "off"),
    "function_instantiate": _kind("variable"),
    "inline": _kind("", "off recursive region self"),
    "interface": _kind(
        "port bundle depth name clock latency num_read_outstanding num_write_outstanding max_read_burst_length "
        "max_write_burst_length max_widen_bitwidth channel autorestart interrupt metadata storage_impl storage_type "
        "side_channel direct_io register_mode register",
        f"{_MODES} register direct_io", mode=_MODES, offset="off direct slave",
    ),
    "latency": _kind("min max"),
    "loop_flatten": _kind("", "off"),
    "loop_merge": _kind("", "force"),
    "loop_tripcount": _kind("min max avg"),
    "occurrence": _kind("cycle", "off"),
    "performance": _kind("target_ti target_tl assume_ti assume_tl", "", unit="cycle sec"),
    "pipeline": _kind("ii", "off rewind enable_flush flush", style="stp flp frp"),
    "protocol": _kind("", "floating fixed", mode="floating fixed"),
    "reset": _kind("variable", "off"),
    "resource": _kind("variable core latency metadata port_map memory_style"),
    "stable": _kind("variable"),
    "stream": _kind("variable depth dim", "off", type="fifo pipo shared unsync", off=_BOOLEAN),
    "top": _kind("name"),
    "unroll": _kind("factor", "region skip_exit_check complete", off=_BOOLEAN, skip_exit_check=_BOOLEAN),
}  # fmt: skip
REQUIRED = {
    "array_partition": "variable", "array_reshape": "variable", "bind_op": "variable", "bind_storage": "variable",
    "stream": "variable", "aggregate": "variable", "disaggregate": "variable", "stable": "variable",
}  # fmt: skip
"""The option that a kind has no meaning without."""
