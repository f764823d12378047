"""What the emulator's host does well: measured figures, from the platform's file by way of the manifest.

A card has none of them, nor has an xclbin whose platform says nothing: what asks for one then does without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar


@dataclass(frozen=True)
class BandLimits:
    """When images are made in bands of rows (lowering/passes/cores/bands.py); sizes in bytes.

    band: the most that a band holds of its images.
    link: the least share of an image, for each lane, from which on bands pay.
    chain: the same for all images between the commands of a chain.
    again: the most multiply-accumulates that seams may add, as a share of a chain's.
    count: the most bands of a stream.
    """

    band: float
    link: float
    chain: float
    again: float
    count: float


@dataclass(frozen=True)
class WinogradCosts:
    """Parts of Winograd's method, in steps of a direct convolution on the MAC array.

    step: a step of its products.
    weight: a vector of weights, from memory outside of the caches.
    exposed: the share of the smaller of these two terms that the larger does not hide.
    transform: a vector of a transformed patch or product.
    start: each element's product.
    """

    step: float
    weight: float
    exposed: float
    transform: float
    start: float


PLAIN_WINOGRAD = WinogradCosts(step=1, weight=1, exposed=1, transform=1, start=0)
"""The stages one after the other, a vector a cycle: the leading terms of hls_kernels/cores/winograd/README.md."""


@dataclass(frozen=True)
class Tuning:
    """Figures of a host; None for an unknown one.

    slice_work: multiply-accumulates, or a fifth as many bytes, that a slice is at least worth.
    winograd: None if an option says that the method is not to be used.
    winograd_tile: side of the tiles that Winograd's method takes wherever it can, faster or not, as an option may ask.
    memory_share: memory rate of cores, as a share of the rate at which an eager ReLU reads and writes host memory.
    """

    slice_work: float | None = None
    memory_share: float | None = None
    bands: BandLimits | None = None
    winograd: WinogradCosts | None = PLAIN_WINOGRAD
    winograd_tile: int | None = None

    @classmethod
    def from_manifest(cls, table: Mapping[str, Any]) -> Tuning:
        bands, winograd = table.get("bands"), table.get("winograd")
        return cls(
            slice_work=table.get("slice_work"),
            memory_share=table.get("memory_share"),
            bands=None if bands is None else _read(BandLimits, bands),
            winograd=PLAIN_WINOGRAD if winograd is None else _read(WinogradCosts, winograd),
        )


T = TypeVar("T", BandLimits, WinogradCosts)


def _read(kind: type[T], table: Mapping[str, Any]) -> T:
    return kind(**{field.name: float(table[field.name]) for field in fields(kind)})
