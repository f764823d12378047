"""Code is loaded only from where nobody but this user and root can write; as root and as any other user."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xclbin_build
from xclbin_build import cache
from xclbin_build.build import load_design
from xclbin_build.trusted_path import check_named, remove_untrusted, weakness

ROOT = os.geteuid() == 0
SOMEBODY = 54321
needs_root = pytest.mark.skipif(not ROOT, reason="only root gives files away")
RECIPE = '[kernel.k]\ncores = ["pool"]\n'


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o722, 0o707])
def test_a_folder_that_others_can_write_to_is_named(tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xclbin_build.trusted_path._is_private", lambda group, owner: False)
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "file").write_text("")
    assert weakness(inner / "file") is None
    (tmp_path / "a").chmod(mode)
    found = weakness(inner / "file")
    assert found is not None and found.path == str(tmp_path / "a") and f"mode {mode:o}" in str(found)
    (tmp_path / "a").chmod(0o1777)
    assert weakness(inner / "file") is None, "in a folder with the sticky bit nobody renames what this user has"


def test_links_are_followed_into_the_places_that_they_lead_to(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to("open")
    (tmp_path / "loop").symlink_to("loop")
    found = weakness(tmp_path / "link" / "new")
    assert found is not None and found.path == str(tmp_path / "open")
    assert weakness(tmp_path / "loop") is not None
    assert weakness(tmp_path / "missing" / "file") is None
    assert weakness(tmp_path / "open" / ".." / "file") is not None


@needs_root
def test_files_and_links_of_others_are_weak(tmp_path: Path) -> None:
    own, foreign, link = tmp_path / "own", tmp_path / "foreign", tmp_path / "link"
    own.write_text("")
    foreign.write_text("")
    link.symlink_to(own)
    os.chown(foreign, SOMEBODY, SOMEBODY)
    os.chown(link, SOMEBODY, SOMEBODY, follow_symlinks=False)
    assert weakness(own) is None
    for path in (foreign, link):
        found = weakness(path)
        assert found is not None and str(SOMEBODY) in str(found)
    with pytest.warns(RuntimeWarning, match="can be changed by others"):
        check_named(foreign, "xclbin")
    tmp_path.chmod(0o1777)
    with pytest.raises(xclbin_build.BuildError, match="is not used"):  # anybody could have put it there
        check_named(foreign, "xclbin")


modes = st.integers(0, 0o777).map(lambda bits: bits | 0o700)
owners = st.sampled_from([0, SOMEBODY] if ROOT else [os.geteuid()])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(levels=st.lists(st.tuples(modes, st.booleans(), owners), min_size=1, max_size=4))
def test_random_modes_and_owners(tmp_path: Path, levels: list[tuple[int, bool, int]]) -> None:
    """What is trusted is what the rule says, level by level."""
    base = Path(os.path.realpath(tmp_path)) / os.urandom(6).hex()
    base.mkdir()
    path, expected = base, True
    for mode, sticky, owner in levels:
        path /= "d"
        path.mkdir()
        os.chown(path, owner, owner if ROOT else -1)
        path.chmod(mode | (stat.S_ISVTX if sticky else 0))
        expected &= owner in (0, os.geteuid())
        expected &= sticky or not mode & 0o002
        if mode & 0o020 and not sticky and ROOT and owner == SOMEBODY:
            expected = False
    by_group = any(mode & 0o020 and not sticky for mode, sticky, _ in levels)
    if expected and by_group:  # it depends on who is in the group
        return
    assert (weakness(path) is None) == expected


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FPGA_DYNAMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(cache, "_instead", {})
    return tmp_path / "cache"


def test_a_cache_that_everybody_can_write_to_is_replaced(chosen: Path) -> None:
    chosen.mkdir()
    chosen.chmod(0o777)
    with pytest.warns(RuntimeWarning, match=r"the cache .* is not used, because .*mode 777"):
        path = cache.xclbin_path("0" * 32)
    assert chosen not in path.parents and weakness(path) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.xclbin_path("0" * 32) == path, "the same place, without another word"
        assert cache.build_directory("k").is_relative_to(path.parents[1])
    assert list(chosen.iterdir()) == []


@pytest.mark.parametrize("part", ["xclbin", "build"])
def test_a_folder_within_the_cache_that_everybody_can_write_to(chosen: Path, part: str) -> None:
    (chosen / part).mkdir(parents=True)
    (chosen / part).chmod(0o777)
    with pytest.warns(RuntimeWarning, match="is not used"):
        place = cache.place(part)
    made = cache.folder(part)
    assert not made.is_relative_to(chosen) and weakness(made) is None
    assert place == made, "a reader looks where a writer writes"


def test_the_name_of_the_replacement_may_be_taken(chosen: Path, tmp_path: Path) -> None:
    taken = tmp_path / "tmp" / f"fpga_dynamo-{os.geteuid()}"
    taken.mkdir()
    taken.chmod(0o777)
    chosen.mkdir()
    chosen.chmod(0o777)
    with pytest.warns(RuntimeWarning):
        made = cache.folder("xclbin")
    assert not made.is_relative_to(taken) and weakness(made) is None


def test_a_cache_is_made_for_this_user_alone(chosen: Path) -> None:
    before = os.umask(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            made = cache.folder("a", "b")
            with cache.locked(made / "c"):
                pass
    finally:
        os.umask(before)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o700 for path in (chosen, chosen / "a", made))
    assert stat.S_IMODE((made / "c.lock").stat().st_mode) == 0o600


def test_a_lock_follows_no_link(chosen: Path, tmp_path: Path) -> None:
    other = tmp_path / "precious"
    other.write_text("content")
    folder = cache.folder("a")
    (folder / "b.lock").symlink_to(other)
    with pytest.raises(xclbin_build.BuildError, match="cannot be used"), cache.locked(folder / "b"):
        pass
    assert other.read_text() == "content"


def test_planted_objects_are_deleted_before_a_build(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    for name in ("a.o", "own/b.o", "own/c.o"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o644)
    (tmp_path / "a.o").chmod(0o666)
    (tmp_path / "own/c.o").chmod(0o646)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    remove_untrusted(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["b.o", "own"]


def test_planted_folders_nested_too_deeply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    depth = 1200
    for _ in range(depth):
        os.mkdir("d")
        os.chdir("d")
    monkeypatch.chdir(tmp_path)
    remove_untrusted(tmp_path)  # this user's own
    (tmp_path / "d").chmod(0o777)
    if sys.version_info < (3, 13):  # whose rmtree does not recurse
        with pytest.raises(xclbin_build.BuildError, match="nested too deeply; delete it"):
            remove_untrusted(tmp_path)
    subprocess.run(["rm", "-r", str(tmp_path / "d")], check=True)


def test_a_recipe_that_everybody_can_write_to_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(RECIPE)
    path.chmod(0o644)
    load_design(path)
    path.chmod(0o666)
    with pytest.raises(xclbin_build.BuildError, match=r"recipe .* is not used, because .*chmod go-w"):
        load_design(path)
