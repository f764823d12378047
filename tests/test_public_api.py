"""The public API is what the manifest says, and it is there without an import of torch."""

from __future__ import annotations

import ast
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import fpga_dynamo
from tests import public_api
from tests.marks import EXTENDED

ROOT = Path(__file__).parents[1]
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_manifest_is_current() -> None:
    written, found = public_api.FILE.read_text(encoding="utf-8").splitlines(), public_api.text().splitlines()
    added, gone = sorted(set(found) - set(written)), sorted(set(written) - set(found))
    assert written == found, f"new: {added}, gone: {gone}; if that is meant: python -m tests.public_api"


def test_every_name_that_a_type_checker_sees_can_be_imported() -> None:
    """The imports for type checkers, the names that are imported on first use, and `__all__` are three lists."""
    tree = ast.parse(Path(fpga_dynamo.__file__).read_text(encoding="utf-8"))
    (checked,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    seen = {
        (alias.asname or alias.name): f"{node.module}.{alias.name}"
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {*seen, "__version__"} == set(fpga_dynamo.__all__)
    for name, place in seen.items():
        module, _, attribute = place.rpartition(".")
        assert getattr(fpga_dynamo, name) is getattr(__import__(module, fromlist=[attribute]), attribute)
    with pytest.raises(AttributeError, match="no attribute 'compile'"):
        fpga_dynamo.compile  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("command", ["fpga_dynamo.tools.cli", "xclbin_build.cli"])
def test_help_does_not_import_torch(command: str) -> None:
    """Where torch is missing or broken, the commands still say what they do."""
    lines = [["--help"], ["--version"], ["run", "--help"], ["estimate", "--help"], ["soc", "run", "--help"]]
    code = f"""
import contextlib, io, sys
sys.modules["torch"] = None  # an import of it fails
from {command} import main
for words in {lines if command.startswith("fpga_dynamo") else [["--help"], ["info", "--help"]]}:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            main(words)
        except SystemExit as ended:
            assert not ended.code, (words, ended.code)
    assert out.getvalue(), words
print("fpga_dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(command.startswith("fpga_dynamo"))


@pytest.mark.parametrize("order", [("fpga_dynamo", "torch"), pytest.param(("torch", "fpga_dynamo"), marks=EXTENDED)])
def test_pytorch_knows_our_cache_artifacts_whichever_is_imported_first(order: tuple[str, str]) -> None:
    """`torch.compiler.load_cache_artifacts` gives up on kinds that it does not know."""
    code = f"""
import {order[0]}, importlib.util
importlib.util.find_spec("torch")  # which imports nothing
import {order[1]}
from torch.compiler._cache import CacheArtifactFactory
import sys
assert "fpga_dynamo" in CacheArtifactFactory._artifact_types
assert torch.__spec__.loader is torch.__loader__ and not any("fpga_dynamo.after" in str(f) for f in sys.meta_path)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_torch_that_cannot_be_imported_says_so_itself(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no libtorch here')")
    code = """
import fpga_dynamo, sys
sys.path.insert(0, sys.argv[1])
try:
    import torch
except ImportError as error:
    assert "no libtorch here" in str(error), error
else:
    raise SystemExit("it was imported")
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_version_stands_in_one_place() -> None:
    """In the package; the build reads it there."""
    assert 'dynamic = ["version"]' in PYPROJECT and "\nversion =" not in PYPROJECT
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {fpga_dynamo.__version__}\n" in citation
    assert fpga_dynamo.__version__ == importlib.metadata.version("fpga_dynamo")
