"""Whether an object file or shared object is whole: a loader that meets one that is cut off crashes."""

from __future__ import annotations

import struct

_MAGIC = b"\x7fELF"
_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_MACHINES = {"x86_64": 62, "aarch64": 183}
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SHARED_OBJECT = 3


def fault(data: bytes, *, shared: bool = False, architecture: str = "") -> str:
    """What is wrong with an ELF file, "" if nothing is.

    shared: it must be a shared object. architecture: by the names of `uname -m`; "" and unknown ones are not checked.
    """
    if not data:
        return "it is empty"
    if not data.startswith(_MAGIC):
        return "it is not an ELF file"
    if data[4:6] != b"\x02\x01":  # of 32 bits, or big-endian: no machine that the package supports has these
        return "it is not a 64-bit little-endian ELF file"
    if len(data) < _HEADER.size:
        return "it is cut off within its header"
    kind, machine, _, _, segments, sections, _, _, segment_bytes, segment_count, section_bytes, section_count, _ = (
        _HEADER.unpack_from(data)
    )
    if shared and kind != _SHARED_OBJECT:
        return "it is not a shared object"
    if _MACHINES.get(architecture, machine) != machine:
        return f"it is machine code of another architecture than {architecture}"
    ends = [sections + section_bytes * section_count if sections else 0]
    if segment_count:
        ends.append(segments + segment_bytes * segment_count)
    if max(ends) > len(data):
        return f"it is cut off after {len(data)} bytes"
    if segment_count and segment_bytes >= _SEGMENT.size:
        for index in range(segment_count):
            _, _, offset, _, _, size, _, _ = _SEGMENT.unpack_from(data, segments + index * segment_bytes)
            if offset + size > len(data):
                return f"it is cut off after {len(data)} bytes"
    return ""
