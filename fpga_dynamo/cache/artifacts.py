"""Entries as a part of ``torch.compiler.save_cache_artifacts()`` and ``load_cache_artifacts()``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from fpga_dynamo.torch_internals.artifacts import CacheArtifact, CacheArtifactFactory, CacheArtifactManager


@CacheArtifactFactory.register
class FpgaProgramArtifact(CacheArtifact):
    """One entry, as it is on disk; it is checked before it goes there, also for who made it.

    What checks it is imported when there is an entry, as each ``import torch`` imports this module.
    """

    def populate_cache(self) -> None:
        from fpga_dynamo.cache import seal, store
        from fpga_dynamo.cache.plain import CorruptError

        try:
            entry = store.parse(self.key, self.content)
            seal.check(entry.header, entry.raw)
        except CorruptError as error:
            store.report_unusable(self.key, error)
        else:
            store.write(self.key, self.content)

    def adopt(self) -> None:
        """As populate_cache, of an entry of whoever made it, which comes with code that is run anyway."""
        from fpga_dynamo.cache import seal, store
        from fpga_dynamo.cache.plain import CorruptError

        try:
            entry = store.parse(self.key, self.content)
        except CorruptError as error:
            store.report_unusable(self.key, error)
        else:
            store.write(self.key, seal.serialise(self.key, entry.header, bytes(entry.raw)))

    @staticmethod
    def type() -> str:
        return "fpga_dynamo"

    @staticmethod
    def encode(content: Any) -> bytes:
        assert isinstance(content, bytes)
        return content


_recorded: ContextVar[list[tuple[str, bytes]] | None] = ContextVar("fpga_dynamo_recorded", default=None)


@contextmanager
def recording() -> Iterator[list[tuple[str, bytes]]]:
    """Yields a list that receives every entry which this thread makes or uses in the block, as (key, content)."""
    entries: list[tuple[str, bytes]] = []
    token = _recorded.set(entries)
    try:
        yield entries
    finally:
        _recorded.reset(token)


def record(key: str, content: bytes) -> None:
    """Tells PyTorch of an entry that this process has made or used."""
    if (entries := _recorded.get()) is not None:
        entries.append((key, content))
    CacheArtifactManager.record_artifact(FpgaProgramArtifact.type(), key, content)
