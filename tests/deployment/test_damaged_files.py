"""Directories that are damaged, of another model or of another version: one sentence, and never a crash."""

from __future__ import annotations

import copy
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim

import fpga_dynamo
from fpga_dynamo.deployment.packed_weights import checksum
from tests.deployment.deployment_kit import Encoder, Reordered, SmallCnn, read_document, reseal
from tests.marks import EXTENDED

FILES = ("model.json", "commands.bin", "weights.bin", "model.xclbin")


@pytest.fixture(scope="module")
def cnn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    return fpga_dynamo.export(SmallCnn().eval(), (torch.randn(1, 3, 8, 8),), tmp_path_factory.mktemp("cnn") / "model")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shapes = {"tokens": {1: Dim("length", max=64)}}
    path = tmp_path_factory.mktemp("encoder") / "model"
    return fpga_dynamo.export(Encoder().eval(), (torch.randint(50, (2, 9)),), path, dynamic_shapes=shapes)


@pytest.fixture
def copied(cnn: Path, tmp_path: Path) -> Path:
    for name in FILES:
        shutil.copyfile(cnn / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("name", FILES)
def test_missing_truncated_and_changed_files(name: str, copied: Path) -> None:
    content = (copied / name).read_bytes()
    middle = len(content) // 2
    for damaged in (content[:-1], content[:middle], b"", content[:middle] + b"\x55\xaa" + content[middle + 2 :]):
        (copied / name).write_bytes(damaged)
        with pytest.raises(fpga_dynamo.FpgaError) as error:
            fpga_dynamo.load(copied)
        assert "\n" not in str(error.value)
    (copied / name).unlink()
    with pytest.raises(fpga_dynamo.FpgaError, match=r"cannot be (read|opened)|No such file"):
        fpga_dynamo.load(copied)


def _set(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        document[key] = value

    return change


def _copy(after: int = 1, to: int | None = None, shape: Any = (5,)) -> Callable[[dict[str, Any]], None]:
    """Adds a copy of the first output into a new value, or into value `to`."""

    def change(document: dict[str, Any]) -> None:
        source = document["outputs"][0]["value"]
        document["values"].append({"dtype": "float32", "elements": 10})
        target = len(document["values"]) - 1 if to is None else to
        views = [{"value": value, "offset": 0, "shape": list(shape), "strides": [1]} for value in (source, target)]
        document["copies"].append({"after": after, "from": views[0], "to": views[1]})

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_set("version", 3), "format version 3, and this library reads 2; build the run-time library"),
        (_set("version", 0), "format version 0, and this library reads 2; export the model again"),
        (_set("format", "ONNX"), "its format is 'ONNX'"),
        (_set("xclbin", "0" * 8), "is another xclbin"),
        (_set("packed_bytes", 1 << 40), "packed weights that are not in weights.bin"),
        (_set("sizes", [["sin", 0, 0]]), "no operation 'sin'"),
        (_set("sizes", [["add", "$0", 1]]), r"\$0 is used before it is computed"),
        (_set("sizes", [["input", 0, 9]]), "dimension 9 of input 0 does not exist"),
        (lambda d: d["launches"][0].update(kernel=4), "there is no kernel 4"),
        (lambda d: d["launches"][0].update(words=1 << 30), "not in commands.bin"),
        (lambda d: d["launches"][0].update(beats=1), "a slot outside of its arena"),
        (lambda d: d["launches"][0]["reads"][0].update(value=2), "read before it is made"),
        (lambda d: d["outputs"][0].update(offset=10**6), "outside of value"),
        (lambda d: d["outputs"][0].update(shape=[1] * 40), "a tensor of 40 dimensions"),
        (_copy(to=1, shape=[5]), "value 1 is made twice|is read before"),
        (_copy(after=9), "there is no after 9"),
        (_copy(shape=[1 << 40]), "outside of value"),
        (_copy(shape=[5, 1]), "a tensor with more sizes than strides"),
        (lambda d: d["values"][0].update(dtype="float8"), "there is no dtype 'float8'"),
        (lambda d: d.pop("kernels"), "'kernels' is missing"),
        (lambda d: d["kernels"][0].update(name="other"), "has no kernel 'other'|no kernel"),
    ],
)
def test_documents_that_contradict_themselves(
    change: Callable[[dict[str, Any]], Any], sentence: str, copied: Path
) -> None:
    document = read_document(copied)
    change(document)
    reseal(copied, document)
    with pytest.raises(fpga_dynamo.FpgaError, match=sentence):
        fpga_dynamo.load(copied)


def test_other_directories(tmp_path: Path) -> None:
    with pytest.raises(fpga_dynamo.ModelFileError, match="cannot be read"):
        fpga_dynamo.load(tmp_path)
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(fpga_dynamo.ModelFileError, match="no exported model"):
        fpga_dynamo.load(tmp_path)


WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    3,
    7,
    64,
    1 << 20,
    1 << 33,
    1 << 52,
    10**30,
    1.5,
    "",
    "x",
    "$0",
    "$3",
    "$999",
    "-1",
    [],
    {},
    [[]],
)
"""What stands in the place of a value of the document."""


def _spots(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Each container in a document with a key or an index of it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found.append((value, key))
        _spots(item, found)
    return found


def mutate(draw: random.Random, document: dict[str, Any]) -> None:
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        container, key = draw.choice(_spots(document, []))
        how = draw.random()
        if how < 0.1 and isinstance(container, dict):
            del container[key]
        elif how < 0.3 and type(container[key]) is int:
            container[key] += draw.choice((-1, 1, 16, -16, 1 << 16))
        else:
            container[key] = copy.deepcopy(draw.choice(WRONG))


def mutated_directory(draw: random.Random, source: Path, folder: Path) -> None:
    """Writes a mutation of a model into `folder`: other commands or another document, with right checksums."""
    document = read_document(source)
    content = bytearray((source / "commands.bin").read_bytes())
    if draw.random() < 0.3:
        for _ in range(draw.choice((1, 3))):
            content[draw.randrange(len(content))] = draw.randrange(256)
        document["files"]["commands.bin"]["crc32"] = checksum(bytes(content))
    else:
        mutate(draw, document)
    (folder / "commands.bin").write_bytes(content)
    for name in ("weights.bin", "model.xclbin"):
        if not (folder / name).exists():
            shutil.copyfile(source / name, folder / name)
    reseal(folder, document)


def _mutations(source: Path, folder: Path, inputs: list[Any], count: int, seed: int) -> int:
    """Loads and runs mutations of a model. Returns how many ran all the same."""
    draw = random.Random(seed)
    ran = 0
    for _ in range(count):
        mutated_directory(draw, source, folder)
        try:
            fpga_dynamo.load(folder, timeout=2.0)(draw.choice(inputs))
            ran += 1
        except (fpga_dynamo.FpgaError, ValueError, MemoryError) as error:
            assert "\n" not in str(error), "one sentence"
    return ran


@pytest.mark.parametrize("count", [100, pytest.param(5000, marks=EXTENDED)])
def test_mutations_never_crash(cnn: Path, encoder: Path, tmp_path: Path, count: int) -> None:
    rows = {"x": {0: Dim("rows", min=2, max=64)}}
    copies = fpga_dynamo.export(Reordered().eval(), (torch.randn(9, 8),), tmp_path / "copies", dynamic_shapes=rows)
    for number, (source, inputs) in enumerate(
        (
            (cnn, [torch.randn(1, 3, 8, 8)]),
            (encoder, [torch.randint(50, (2, n)) for n in (9, 40)]),
            (copies, [torch.randn(n, 8) for n in (9, 40)]),
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert _mutations(source, folder, inputs, count, seed=number) < count, "some are refused"
