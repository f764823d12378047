"""Reader and writer of xclbin files: the axlf container of XRT's public xclbin.h.

    offset 0    magic "xclbin2\\0", signature length (-1: none), 28 reserved bytes, 256 bytes of key block, unique id

    offset 304  header, 152 bytes: length, times, version, mode, platform, uuid, number of sections

    offset 456  section headers of 40 bytes each, then the sections, aligned to 8 bytes

All numbers are little-endian.
"""

from __future__ import annotations

import hashlib
import os
import struct
import uuid as uuids
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

from . import atomic_file
from . import manifest as manifests
from .errors import XclbinError
from .trusted_path import printable

__all__ = ["Axlf", "Mode", "Section", "XclbinError", "read", "write"]

MAGIC = b"xclbin2\0"
_PREFIX = struct.Struct("<8si28s256sQ")
_HEADER = struct.Struct("<QQQHBBHH16s64s16s16sI4x")
_SECTION_HEADER = struct.Struct("<I16s4xQQ")
_SECTIONS_OFFSET = _PREFIX.size + _HEADER.size
_MAX_SECTIONS = 0x10000
_MAX_PLATFORM = 63
_NO_UUID = uuids.UUID(int=0)
_VERSION = (2, 13, 466)  # major, minor, patch: the XRT whose structures these are


class Mode(IntEnum):
    """XCLBIN_MODE: who is to run the bitstream."""

    FLAT = 0
    PR = 1
    TANDEM_STAGE2 = 2
    TANDEM_STAGE2_WITH_PR = 3
    HW_EMU = 4
    SW_EMU = 5
    HW_EMU_PR = 6


class Section(IntEnum):
    """axlf_section_kind, as far as this package writes or reads them."""

    BITSTREAM = 0
    EMBEDDED_METADATA = 2
    MEM_TOPOLOGY = 6
    CONNECTIVITY = 7
    IP_LAYOUT = 8
    CLOCK_FREQ_TOPOLOGY = 11
    BUILD_METADATA = 14
    USER_METADATA = 16
    GROUP_TOPOLOGY = 26
    GROUP_CONNECTIVITY = 27


@dataclass(frozen=True)
class Axlf:
    """The content of an xclbin. `sections` is by kind, in the file's order; kinds that xclbin.h adds later are kept.

    `names` are the section headers' own names, which XRT does not interpret.
    """

    sections: Mapping[int, bytes]
    mode: int = Mode.SW_EMU
    platform: str = ""
    uuid: uuids.UUID = _NO_UUID
    timestamp: int = 0
    rom_timestamp: int = 0
    rom_uuid: bytes = bytes(16)
    version: tuple[int, int, int] = _VERSION
    action_mask: int = 0
    names: Mapping[int, str] = field(default_factory=dict)

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest of xclbin-build, checked; XclbinError if the file has none."""
        section = self.sections.get(Section.USER_METADATA)
        if section is None:
            raise XclbinError(
                "the file has no USER_METADATA section with a manifest; only files made by xclbin-build do."
            )
        return manifests.decode(section)

    def content_uuid(self) -> uuids.UUID:
        """UUID that follows from mode, platform and sections: same inputs, same UUID."""
        digest = hashlib.sha256(struct.pack("<I64s", self.mode, self.platform.encode()))
        for kind, data in self.sections.items():
            digest.update(struct.pack("<IQ", kind, len(data)))
            digest.update(data)
        return uuids.UUID(bytes=digest.digest()[:16], version=5)

    def with_section(self, kind: int, data: bytes) -> Axlf:
        """A copy with one section added or replaced; everything else, the UUID too, stays."""
        return replace(self, sections={**self.sections, kind: data})

    def to_bytes(self) -> bytes:
        """The file."""
        platform = self.platform.encode()
        if len(platform) > _MAX_PLATFORM:
            raise XclbinError(f"platform name '{self.platform}' has more than {_MAX_PLATFORM} bytes; shorten it.")
        offset = _align(_SECTIONS_OFFSET + _SECTION_HEADER.size * len(self.sections))
        headers, bodies = [], []
        for kind, data in self.sections.items():
            name = self.names.get(kind, Section(kind).name if kind in Section._value2member_map_ else f"section {kind}")
            headers.append(_SECTION_HEADER.pack(kind, name.encode()[:15], offset, len(data)))
            body = data + bytes(-len(data) % 8)
            bodies.append(body)
            offset += len(body)
        unique = int.from_bytes(self.uuid.bytes[:8], "little")
        prefix = _PREFIX.pack(MAGIC, -1, b"\xff" * 28, bytes(256), unique)
        major, minor, patch = self.version
        header = _HEADER.pack(
            offset, self.timestamp, self.rom_timestamp, patch, major, minor, self.mode, self.action_mask,
            self.rom_uuid, platform, self.uuid.bytes, b"", len(self.sections),
        )  # fmt: skip
        head = prefix + header + b"".join(headers)
        return head + bytes(_align(len(head)) - len(head)) + b"".join(bodies)


def write(path: str | Path, axlf: Axlf, *, keep_uuid: bool = False) -> uuids.UUID:
    """Writes `axlf` to `path`, all at once (readers see the old file or the new one), and returns its UUID.

    The UUID is that of the content unless `keep_uuid`; the time is $SOURCE_DATE_EPOCH or 0 unless set in `axlf`.
    """
    path = Path(path)
    if not keep_uuid:
        axlf = replace(axlf, uuid=axlf.content_uuid())
    if not axlf.timestamp:
        axlf = replace(axlf, timestamp=_source_date())
    content = axlf.to_bytes()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_file.write(path, content, durable=True, code=True)
    except OSError as error:
        raise XclbinError(f"{printable(path)} cannot be written: {error.strerror or error}.") from error
    return axlf.uuid


def read(source: str | Path | bytes, *, foreign: bool = False) -> Axlf:
    """Reads an xclbin from a path or from bytes and checks all of it, also that software emulation's files are whole.

    `foreign`: accept a file without our manifest, such as v++ writes. Raises XclbinError, one sentence, otherwise.
    """
    if isinstance(source, bytes):
        return _parse(source, foreign)
    try:
        with Path(source).open("rb") as file:
            data = file.read(len(MAGIC))
            if data == MAGIC:  # what begins otherwise may be of any size, or a device without an end
                data += file.read()
    except OSError as error:
        raise XclbinError(f"xclbin {printable(source)} cannot be read: {error.strerror or error}.") from error
    try:
        return _parse(data, foreign)
    except XclbinError as error:
        raise XclbinError(f"xclbin {printable(source)}: {error}") from error


def _parse(data: bytes, foreign: bool) -> Axlf:
    if data[: len(MAGIC)] != MAGIC:
        raise XclbinError("the file does not begin with 'xclbin2', so it is not an xclbin.")
    if len(data) < _SECTIONS_OFFSET:
        raise XclbinError(f"the file ends within its header, after {len(data)} bytes; it is cut off.")
    (
        length,
        timestamp,
        rom_timestamp,
        patch,
        major,
        minor,
        mode,
        action_mask,
        rom_uuid,
        platform,
        uuid,
        _debug,
        count,
    ) = _HEADER.unpack_from(data, _PREFIX.size)
    signature = _PREFIX.unpack_from(data)[1]
    expected = length + max(signature, 0)  # a signature follows the last section
    if len(data) != expected:
        state = "cut off" if len(data) < expected else "damaged"
        raise XclbinError(f"the file has {len(data)} bytes where its header says {expected}; it is {state}.")
    if count > _MAX_SECTIONS or _SECTIONS_OFFSET + count * _SECTION_HEADER.size > length:
        raise XclbinError(f"the header has {count} sections, more than fit into the file; it is damaged.")
    sections, names = _sections(data, count, length)
    try:
        axlf = Axlf(
            sections,
            mode=mode,
            platform=platform.split(b"\0")[0].decode(),
            uuid=uuids.UUID(bytes=uuid),
            timestamp=timestamp,
            rom_timestamp=rom_timestamp,
            rom_uuid=rom_uuid,
            version=(major, minor, patch),
            action_mask=action_mask,
            names=names,
        )
    except UnicodeDecodeError as error:
        raise XclbinError("the platform name in the header is not text; the file is damaged.") from error
    if foreign:
        return axlf
    target = axlf.manifest["target"]
    if target in manifests.EMULATED and axlf.uuid != axlf.content_uuid():
        raise XclbinError("the content does not match the UUID in the header; the file is damaged, build it again.")
    for kind in (
        Section.BITSTREAM,
        Section.EMBEDDED_METADATA,
        Section.IP_LAYOUT,
        Section.MEM_TOPOLOGY,
        Section.CONNECTIVITY,
    ):
        if kind not in sections and target in manifests.EMULATED:
            raise XclbinError(f"section {kind.name} is missing; build the file again.")
    return axlf


def _sections(data: bytes, count: int, length: int) -> tuple[dict[int, bytes], dict[int, str]]:
    sections: dict[int, bytes] = {}
    names: dict[int, str] = {}
    first = _SECTIONS_OFFSET + count * _SECTION_HEADER.size
    for index in range(count):
        kind, name, offset, size = _SECTION_HEADER.unpack_from(data, _SECTIONS_OFFSET + index * _SECTION_HEADER.size)
        if offset < first or offset + size > length:
            raise XclbinError(
                f"section {index} spans bytes {offset} to {offset + size}, outside the file; it is damaged."
            )
        if kind in sections:
            raise XclbinError(f"section {index} repeats kind {kind}; the file is damaged.")
        sections[kind] = data[offset : offset + size]
        names[kind] = name.split(b"\0")[0].decode("ascii", "replace")
    return sections, names


def _align(size: int) -> int:
    return (size + 7) & ~7


def _source_date() -> int:
    """Time of reproducible builds, https://reproducible-builds.org/specs/source-date-epoch/; 0 when not set."""
    text = os.environ.get("SOURCE_DATE_EPOCH", "0")
    if not text.isdigit():
        raise XclbinError(f"SOURCE_DATE_EPOCH must be a number of seconds, not {text!r}.")
    return int(text)
