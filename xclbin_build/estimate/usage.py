"""What a kernel, or a process of it, takes, counted in operators, memories and registers, and that in resources."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from ..hls.operators import Operators, multiplexer, product_dsps
from ..hls.resources import Resources, total
from . import memories


@dataclass
class Usage:
    """What a kernel takes. units: shared operators by kind, operations: what they
    do in all; multipliers: of integers, by (bits, bits, result bits); accumulated: those whose DSP adds as well."""

    units: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    multipliers: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    accumulated: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    shared_products: Counter[int] = field(default_factory=Counter)
    arrays: dict[str, tuple[int, memories.Memory]] = field(default_factory=dict)
    logic: Resources = field(default_factory=Resources)
    multiplexers: Counter[int] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    register_bits: int = 0
    shift_bits: int = 0
    states: int = 0

    def add_products(self, own: Usage, ii: int) -> None:
        """The products of a region. In a pipeline of interval `ii` as many share a DSP, behind two multiplexers; those
        of LUTs are not worth it."""
        self.logic += own.logic
        for mine, its in ((self.multipliers, own.multipliers), (self.accumulated, own.accumulated)):
            for widths, count in its.items():
                units = math.ceil(count / ii) if product_dsps(*widths) else count
                mine[widths] += units
                if units < count:
                    self.multiplexers[math.ceil(count / units) + 1] += 2 * units

    def count_choices(self) -> None:
        """Multiplexers in front of what several operations share."""
        for kind, count in self.units.items():
            inputs = math.ceil(self.operations[kind] / count)
            if inputs > 1:
                self.multiplexers[inputs + 1] += 2 * count
        for reached in self.reached.values():
            if reached > 1:
                self.multiplexers[reached + 1] += 3

    def resources(self, operators: Operators, *, has_uram: bool = True) -> Resources:
        """The counted things in numbers of what the FPGA is made of."""
        parts: list[Resources] = [self.logic, operators.states(self.states)]
        parts += [operators.unit(kind) * count for kind, count in self.units.items()]
        parts += [operators.product(*key) * count for key, count in self.multipliers.items()]
        parts += [Resources(dsp=operators.product(*key).dsp) * count for key, count in self.accumulated.items()]
        parts += [Resources(dsp=dsps * count, lut=20 * dsps * count) for dsps, count in self.shared_products.items()]
        parts += [memories.cost(memory, has_uram=has_uram) * banks for banks, memory in self.arrays.values()]
        parts += [multiplexer(inputs) * count for inputs, count in self.multiplexers.items()]
        parts.append(Resources(ff=self.register_bits, lut=self.shift_bits))
        found = total(parts)
        lut, ff = operators.uncounted()
        return operators.placed(Resources(found.dsp, found.bram36, found.uram, found.lut * lut, found.ff * ff))
