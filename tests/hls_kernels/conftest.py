"""Fixture: the programs of the benches that a run has selected."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hls_kernels.bench_kit import Build, Programs


@pytest.fixture(scope="module")
def programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """All builds that are parameters of the selected tests of a module, compiled side by side."""
    builds: list[Build] = []
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.module is request.module and hasattr(item, "callspec"):
            for value in item.callspec.params.values():
                several = value if isinstance(value, tuple) else (value,)
                builds += [build for build in several if isinstance(build, Build)]
    compiled = Programs(tmp_path_factory.mktemp("benches"), builds)
    yield compiled
    compiled.close()
