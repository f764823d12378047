"""Operators of ONNX that move elements, ask for sizes, or resize."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fpga_dynamo.onnx.builder import Call, Translation, Value, shape_of
from fpga_dynamo.onnx.types import torch_type


def _shape(c: Call) -> Value:
    size = shape_of(c[0])
    begin, end = c.attribute("start", 0), c.attribute("end", len(size))
    return torch.tensor(size[begin:end], dtype=torch.int64)


def _reshape(c: Call) -> Value:
    wanted = c.integers(1, "shape")
    if wanted is None:
        raise c.refuse("the shape is missing")
    size = shape_of(c[0])
    if not c.attribute("allowzero", 0):
        wanted = [size[i] if n == 0 else n for i, n in enumerate(wanted)]
    if size and wanted and wanted[0] == size[0] and 0 not in size:
        # A batch that stays first may have any size when the model is called.
        count: int = math.prod(size)
        known: int = math.prod(n for n in wanted if n != -1)
        wanted = [-1, *(count // known if n == -1 else n for n in wanted[1:])]
    return c.add(torch.reshape, c[0], wanted)


def _flatten(c: Call) -> Value:
    axis, size = c.attribute("axis", 1), shape_of(c[0])
    axis = axis % len(size) if axis != len(size) else axis
    if axis == 1:
        return c.add(torch.flatten, c[0], 1) if len(size) > 1 else c.add(torch.reshape, c[0], [-1, 1])
    return c.add(torch.reshape, c[0], [math.prod(size[:axis]), math.prod(size[axis:])])


def _transpose(c: Call) -> Value:
    return c.add(torch.permute, c[0], list(c.attribute("perm", range(len(shape_of(c[0])))[::-1])))


def _squeeze(c: Call) -> Value:
    axes = c.integers(1, "axes")
    return c.add(torch.squeeze, c[0]) if axes is None else c.add(torch.squeeze, c[0], tuple(axes))


def _unsqueeze(c: Call) -> Value:
    axes = c.integers(1, "axes") or []
    rank, result = len(shape_of(c[0])) + len(axes), c[0]
    for axis in sorted(axis % rank for axis in axes):
        result = c.add(torch.unsqueeze, result, axis)
    return result


def _concat(c: Call) -> Value:
    return c.add(torch.cat, [c[i] for i in range(len(c.inputs))], c.attribute("axis", 0))


def _split(c: Call) -> Sequence[Value]:
    axis, lengths = c.attribute("axis", 0), c.integers(1, "split")
    size = shape_of(c[0])[axis]
    if lengths is None:
        parts = c.attribute("num_outputs", c.outputs)
        each = math.ceil(size / parts)
        lengths = [min(each, size - each * i) for i in range(parts)]
    ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]
    return [_sliced(c, c[0], axis, end - length, end, 1) for length, end in zip(lengths, ends, strict=True)]


def _sliced(c: Call, x: Value, axis: int, begin: int, end: int, step: int) -> Value:
    return c.add(torch.ops.aten.slice.Tensor, x, axis, begin, end, step)


def _slice(c: Call) -> Value:
    begins, ends = c.integers(1, "starts"), c.integers(2, "ends")
    if begins is None or ends is None:
        raise c.refuse("starts or ends are missing")
    axes = c.integers(3, "axes") or list(range(len(begins)))
    steps = c.integers(4, "steps") or [1] * len(begins)
    result = c[0]
    for begin, end, axis, step in zip(begins, ends, axes, steps, strict=True):
        if step < 0:
            result, begin, end, step = _turned(c, result, axis, begin, end, step)
        result = _sliced(c, result, axis, begin, end, step)
    return result


def _turned(c: Call, x: Value, axis: int, begin: int, end: int, step: int) -> tuple[Value, int, int, int]:
    """A slice that runs backwards, of the flipped tensor."""
    size = shape_of(x)[axis]
    first = min(begin + size if begin < 0 else begin, size - 1)
    last = max(end + size if end < 0 else end, -1) if end >= -size else -1
    return c.add(torch.flip, x, [axis]), size - 1 - first, size - 1 - last, -step


def _gather(c: Call) -> Value:
    axis, index = c.attribute("axis", 0), c.get(1)
    if isinstance(index, Tensor) and not index.dim():
        return c.add(torch.select, c[0], axis, int(index))
    if not isinstance(index, Tensor) and axis == 0 and len(shape_of(c[0])) == 2 and isinstance(c[0], Tensor):
        return c.add(F.embedding, index, c[0])
    assert index is not None
    index = _from_the_begin(index, shape_of(c[0])[axis])
    flat = c.add(torch.index_select, c[0], axis, c.add(torch.reshape, index, [-1]))
    size = shape_of(c[0])
    axis %= len(size)
    return c.add(torch.reshape, flat, [*size[:axis], *shape_of(index), *size[axis + 1 :]])


def _from_the_begin(index: Value, size: int) -> Value:
    """Constant indices without those that count from the end, which PyTorch refuses."""
    return torch.where(index < 0, index + size, index) if isinstance(index, Tensor) else index


def _gather_elements(c: Call) -> Value:
    axis = c.attribute("axis", 0)
    return c.add(torch.gather, c[0], axis, _from_the_begin(c[1], shape_of(c[0])[axis]))


def _expand(c: Call) -> Value:
    wanted = c.integers(1, "shape") or []
    return c.add(torch.broadcast_to, c[0], list(torch.broadcast_shapes(shape_of(c[0]), tuple(wanted))))


def _pad(c: Call) -> Value:
    mode = c.attribute("mode", b"constant").decode()
    pads = c.integers(1, "pads") or []
    number, axes = c.constant(2), c.integers(3, "axes")
    rank = len(shape_of(c[0]))
    pairs = [(0, 0)] * rank
    for i, axis in enumerate(axes or range(rank)):
        pairs[axis] = (pads[i], pads[len(pads) // 2 + i])
    while pairs and pairs[0] == (0, 0):
        pairs.pop(0)
    flat = [n for pair in reversed(pairs) for n in pair]
    if not flat:
        return c[0]
    names = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    if mode not in names:
        raise c.refuse(f"the mode {mode} is not supported")
    if mode != "constant":
        return c.add(F.pad, c[0], flat, names[mode])
    return c.add(F.pad, c[0], flat, "constant", c.attribute("value", 0.0) if number is None else number.item())


def _resize(c: Call) -> Value:
    """Resize, and its older form Upsample, to sizes or by factors, of the spatial dimensions."""
    upsample = c.operator == "Upsample"
    factors = c.constant(1 if upsample or c.opset < 11 else 2)
    sizes = None if upsample or c.opset < 11 else c.constant(3)
    size = shape_of(c[0])
    if sizes is not None and sizes.numel():
        wanted = [int(n) for n in sizes]
    elif factors is not None and factors.numel():
        wanted = [math.floor(n * float(f)) for n, f in zip(size, factors, strict=True)]
    else:
        raise c.refuse("neither sizes nor scales are given")
    if wanted[:2] != list(size[:2]) or not 3 <= len(size) <= 5:
        raise c.refuse("only the dimensions behind batch and channels can be resized")
    mode = c.attribute("mode", b"nearest").decode()
    default = b"asymmetric" if upsample or c.opset < 11 else b"half_pixel"
    where = c.attribute("coordinate_transformation_mode", default).decode()
    if mode == "nearest":
        rounding = c.attribute("nearest_mode", b"round_prefer_floor").decode()
        whole = all(w % n == 0 for w, n in zip(wanted, size, strict=True))
        same = (where == "asymmetric" and (rounding == "floor" or upsample or c.opset < 11)) or (
            whole and where == "half_pixel" and rounding in ("round_prefer_floor", "round_prefer_ceil")
        )
        if not same:
            raise c.refuse(f"nearest by {where} and {rounding} is not supported; asymmetric and floor are")
        return c.add(F.interpolate, c[0], wanted[2:], mode="nearest")
    modes = {"linear": {3: "linear", 4: "bilinear", 5: "trilinear"}, "cubic": {4: "bicubic"}}
    name = modes.get(mode, {}).get(len(size))
    aligned = where == "align_corners"
    if name is None or where not in ("align_corners", "half_pixel", "pytorch_half_pixel"):
        raise c.refuse(f"{mode} by {where} in {len(size) - 2} dimensions is not supported")
    if name == "bicubic" and c.attribute("cubic_coeff_a", -0.75) != -0.75:
        raise c.refuse("cubic_coeff_a other than -0.75 is not supported")
    return c.add(F.interpolate, c[0], wanted[2:], mode=name, align_corners=aligned)


def _depth_to_space(c: Call) -> Value:
    block = c.attribute("blocksize")
    if c.attribute("mode", b"DCR") == b"CRD":
        return c.add(torch.pixel_shuffle, c[0], block)
    batch, channels, height, width = shape_of(c[0])
    each = channels // block**2
    parts = c.add(torch.reshape, c[0], [batch, block, block, each, height, width])
    moved = c.add(torch.permute, parts, [0, 3, 4, 1, 5, 2])
    return c.add(torch.reshape, moved, [batch, each, height * block, width * block])


def _space_to_depth(c: Call) -> Value:
    block = c.attribute("blocksize")
    batch, channels, height, width = shape_of(c[0])
    parts = c.add(torch.reshape, c[0], [batch, channels, height // block, block, width // block, block])
    moved = c.add(torch.permute, parts, [0, 3, 5, 1, 2, 4])
    return c.add(torch.reshape, moved, [batch, channels * block**2, height // block, width // block])


def _constant_of_shape(c: Call) -> Value:
    sizes = c.integers(0, "shape") or []
    number = c.attribute("value")
    if number is None:
        return torch.zeros(sizes)
    return torch.full(sizes, number.item(), dtype=number.dtype)


def _range(c: Call) -> Value:
    limits = [c.constant(i) for i in range(3)]
    assert all(limit is not None for limit in limits)
    begin, end, step = (limit.item() for limit in limits if limit is not None)
    return torch.arange(begin, end, step, dtype=limits[0].dtype)  # type: ignore[union-attr]


def _trilu(c: Call) -> Value:
    diagonal = c.constant(1)
    function: Any = torch.triu if c.attribute("upper", 1) else torch.tril
    return c.add(function, c[0], 0 if diagonal is None else int(diagonal))


def _eye_like(c: Call) -> Value:
    rows, columns = shape_of(c[0])
    wanted = torch_type(c.attribute("dtype", 1), str(c))
    return torch.ones(rows, columns, dtype=wanted).tril(c.attribute("k", 0)).triu(c.attribute("k", 0))


MOVING: dict[str, Translation] = {
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "EyeLike": _eye_like,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "Identity": lambda c: c[0],
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "Resize": _resize,
    "Shape": _shape,
    "Size": lambda c: torch.tensor(math.prod(shape_of(c[0]))),
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": lambda c: c.add(torch.tile, c[0], tuple(c.integers(1, "repeats") or ())),
    "Transpose": _transpose,
    "Trilu": _trilu,
    "Unsqueeze": _unsqueeze,
    "Upsample": _resize,
}
