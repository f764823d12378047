"""Entries as a part of ``torch.compiler.save_cache_artifacts()`` and ``load_cache_artifacts()``."""

from __future__ import annotations

from typing import Any

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

from fpga_dynamo.compile_cache import store
from fpga_dynamo.compile_cache.plain import CorruptError


@CacheArtifactFactory.register
class FpgaProgramArtifact(CacheArtifact):
    """One entry, as it is on disk; it is checked before it goes there."""

    def populate_cache(self) -> None:
        try:
            store.parse(self.key, self.content)
        except CorruptError as error:
            store.report_unusable(self.key, error)
        else:
            store.write(self.key, self.content)

    @staticmethod
    def type() -> str:
        return "fpga_dynamo"

    @staticmethod
    def encode(content: Any) -> bytes:
        assert isinstance(content, bytes)
        return content


def record(key: str, content: bytes) -> None:
    """Tells PyTorch of an entry that this process has made or used."""
    CacheArtifactManager.record_artifact(FpgaProgramArtifact.type(), key, content)
