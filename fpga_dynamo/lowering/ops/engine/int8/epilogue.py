"""The epilogue of an int8 product as fields of the engine's command; see ops/quantised/epilogue.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fpga_dynamo.codegen.engine.command import Flags
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import MapImages, RefusedError, of_engine
from fpga_dynamo.codegen.requantize import factor
from fpga_dynamo.ir.quantised import dequantized
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.ops.quantised.epilogue import QuantizedEpilogue, limits, signed_zero


def engine_fields(end: QuantizedEpilogue, emitter: EngineEmitter) -> dict[str, Any]:
    """The fields of an engine's command for an epilogue; its table: params.py. Raises RefusedError."""
    scale = end.scale
    if scale is None:
        raise RefusedError("a float32 result is not supported; the engine writes int8")
    if end.in_floats:
        kind = end.activation.kind.removeprefix("ACT_").lower()
        raise RefusedError(f"its {kind} is computed before rounding, and the engine's tables are of rounded numbers")
    of_engine(end.last, "result", emitter.sizes)
    low, high = end.narrower or limits(end.activation, scale)
    found: dict[str, Any] = {"flags": Flags.NONE, "zero": scale.zero, "low": low, "high": high}
    if end.table is not None:
        found["flags"] |= Flags.TABLE
    if end.residual is not None:
        other = dequantized(end.residual)
        assert other is not None
        of_engine(other[0], "addend", emitter.sizes)
        found |= {"residual_zero": other[1].zero, "residual_factor": factor(other[1].scale / scale.scale)}
    if end.middle is not None:
        found["flags"] |= Flags.MIDDLE
        found |= {"middle_zero": signed_zero(end.middle), "middle_factor": factor(end.middle.scale / scale.scale)}
    return found


def engine_residual(
    end: QuantizedEpilogue,
    emitter: EngineEmitter,
    seen: Callable[[View], View],
    taken: Callable[[View, str], MapImages],
) -> MapImages | None:
    """Where the integers lie that are added, seen in the form of the command. Raises RefusedError."""
    if end.residual is None:
        return None
    found = dequantized(end.residual)
    assert found is not None
    return taken(seen(emitter.view(found[0])), "addend")
