"""Names and paths in what is generated: checked where they are read, escaped where they are written."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.marks import EXTENDED
from xclbin_build import escape, memory, names, qor
from xclbin_build import platform as platforms
from xclbin_build import recipe as recipes
from xclbin_build.build import load_design
from xclbin_build.errors import BuildError, RecipeError
from xclbin_build.flow.script import build_script
from xclbin_build.generate import emulation_sources, hls_sources
from xclbin_build.toolchain import gxx, ninja_file
from xclbin_build.toolchain.ninja_file import TranslationUnit

GXX = shutil.which("g++") or shutil.which("clang++")
needs_compiler = pytest.mark.skipif(not GXX, reason="needs a C++ compiler")
NASTY = "a\"'\\$ \n\r\t\0#:|%?;&<>(){}[]*/\u00e9\u202e\u2028\x7f\x1b="
nasty = st.text(st.sampled_from(NASTY) | st.characters(), max_size=20)
paths = st.binary(min_size=1, max_size=20).map(lambda raw: os.fsdecode(raw.replace(b"\0", b"0")))


@needs_compiler
@settings(max_examples=5, deadline=None)
@given(text=st.lists(nasty | paths, min_size=20, max_size=20))
@example(text=["??/", "\\", '"', "\n", "\udcff1", "%s", ""])
def test_a_string_of_cpp_has_the_texts_bytes(tmp_path_factory: pytest.TempPathFactory, text: list[str]) -> None:
    folder = tmp_path_factory.mktemp("cpp")
    data = [t.encode("utf-8", "surrogateescape") for t in text if not any(0xD800 <= ord(c) < 0xDC80 for c in t)]
    text = [raw.decode("utf-8", "surrogateescape") for raw in data]
    asserts = [
        f"// {escape.cpp_comment(t)}\nstatic_assert(same({escape.cpp_string(t)}, {len(raw)}, (const unsigned char[])"
        f"{{{', '.join(map(str, raw))}{',' if raw else ''} 0}}));"
        for t, raw in zip(text, data, strict=True)
    ]
    source = "constexpr bool same(const char* a, int n, const unsigned char* b) { for (int i = 0; i <= n; i++) if ("
    source += "(unsigned char)a[i] != b[i]) return false; return true; }\n" + "\n".join(asserts)
    (folder / "a.cpp").write_bytes(source.encode("utf-8", "surrogateescape"))
    subprocess.run([str(GXX), "-std=c++17", "-fsyntax-only", folder / "a.cpp"], check=True)


@settings(max_examples=200, deadline=None)
@given(text=nasty | paths)
def test_a_ninja_value_is_one_line_or_refused(text: str) -> None:
    for function in (escape.ninja_value, escape.ninja_path):
        try:
            written = function(text)
        except BuildError:
            assert set(text) & set("\n\r\0")
        else:
            assert not set(written) & set("\n\r\0") and written.replace("$$", "").replace("$ ", "").count("$") == (
                written.replace("$$", "").replace("$ ", "").count("$:")
            )


@settings(max_examples=300, deadline=None)
@given(text=nasty, field=st.sampled_from(["name", "platform", "core", "source", "memory", "slr", "kernel"]))
def test_names_of_a_recipe_are_checked_where_they_are_read(
    tmp_path_factory: pytest.TempPathFactory, text: str, field: str
) -> None:
    """Whatever is accepted cannot end the line, string or comment that it is written into."""
    path = tmp_path_factory.getbasetemp() / "mine.toml"
    quoted = '"' + "".join(f"\\U{ord(c):08x}" for c in text if not 0xD800 <= ord(c) < 0xE000) + '"'
    kernel = f"[kernel.{quoted if field == 'kernel' else 'k'}]\n"
    body = {
        "name": f"name = {quoted}\n{kernel}cores = ['pool']",
        "platform": f"platform = {quoted}\n{kernel}cores = ['pool']",
        "core": f"{kernel}cores = [{quoted}]",
        "source": f"{kernel}source = {quoted}",
        "memory": f"{kernel}cores = ['pool']\nmemory = {{ arena = {quoted} }}",
        "slr": f"{kernel}cores = ['pool']\nslr = [{quoted}]",
        "kernel": f"{kernel}cores = ['pool']",
    }[field]
    path.write_text(body, encoding="utf-8")
    try:
        loaded = recipes.load(path)
    except RecipeError as error:
        assert str(error).isprintable()
        return
    (found,) = loaded.kernels
    values = (
        loaded.name,
        loaded.platform,
        found.name,
        *found.sources,
        *found.cores,
        *found.slr,
        *found.memory.values(),
    )
    for value in values:
        assert value.isprintable()
    assert not set("".join((*found.sources, *found.cores))) & set('"\\')


@pytest.mark.parametrize("tag", ['D"', "D\\", "D\nx", "D]", "D[x]", "D:1", "D E", "", "D'", "D/*"])
def test_tags_of_banks(tmp_path: Path, tag: str) -> None:
    text = (platforms.DIRECTORY / "u250.toml").read_text()
    path = tmp_path / "p.toml"
    path.write_text(text.replace('tag = "DDR"', f"tag = {_toml(tag)}"))
    with pytest.raises(RecipeError, match="'tag' must be"):
        platforms.load(path)


@pytest.mark.parametrize("label", ["for", "int", "a\nb", 'a"', "\u00b2", ""])
def test_labels_of_a_contract(tmp_path: Path, label: str) -> None:
    path = tmp_path / "qor.toml"
    path.write_text(f"[loop.{_toml(label)}]\nii = 1\ndepth = 1\nwhy = 'x'\n", encoding="utf-8")
    with pytest.raises(RecipeError):
        qor.load(path)


def _toml(text: str) -> str:
    return '"' + "".join(f"\\U{ord(c):08x}" for c in text) + '"'


SOURCE = 'extern "C" void k(int* a, int n) { a[0] = n + TWO; }\n'
FOLDERS = [b"a\nb", b"\xff\xfe", b'quote"back\\slash', b"dollar $HOME ${x}", b"semi;colon*?<>|&", b"-I x", b" both "]


def folder_with_kernel(base: Path, name: bytes) -> Path:
    """A recipe whose kernel includes a header beside it, in a folder with such a name."""
    folder = Path(os.fsdecode(os.path.join(os.fsencode(base), name)))
    folder.mkdir()
    (folder / "k.cpp").write_text('#include "two.hpp"\n' + SOURCE)
    (folder / "two.hpp").write_text("constexpr int TWO = 2;\n")
    (folder / "my.toml").write_text('name = "mine"\n[kernel.k]\nsource = "k.cpp"\n')
    return folder / "my.toml"


@needs_compiler
@pytest.mark.parametrize("name", [*FOLDERS[:2], *(pytest.param(n, marks=EXTENDED) for n in FOLDERS[2:])], ids=repr)
def test_the_folder_of_a_recipe_may_have_any_name(tmp_path: Path, name: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources compile where their folder's name has what no ninja file or dependency file can hold."""
    design = load_design(folder_with_kernel(tmp_path, name))
    monkeypatch.setenv("FPGA_DYNAMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(gxx, "find_compiler", lambda *_: _Fast)
    monkeypatch.setattr(gxx, "check_written", lambda compiler, path, architecture: path.read_bytes())
    first = gxx.build(design)
    assert first.shared_object and first.edges > 0
    assert gxx.build(design).edges == 0, "nothing has changed, and ninja sees that"
    script = build_script(load_design(folder_with_kernel(tmp_path, name + b"2"), platform="u250"), "hw")
    assert script.encode("utf-8", "surrogateescape")


class _Fast:
    """g++ without optimisation: what is tested is which files it finds."""

    command = (str(GXX), "-O0", "-fno-tree-vectorize")
    version = "fast"


def test_generated_headers_hold_no_text_that_ends_a_string() -> None:
    known = platforms.load("u280")
    text = memory.header(known.memories, [('a"b\\', "ddr4", 0, 4096)], 300.0)
    assert '{"a\\042b\\134", 0x0u' in text
    assert names.BANK.allows("HBM[31]") and not names.BANK.allows('HBM"')


def test_a_line_break_in_a_ninja_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="a ninja file cannot contain"):
        ninja_file.write(tmp_path / "x.ninja", ["g++\nrule x"], [TranslationUnit("a.cpp", [])], "a.so")


def test_comments_name_the_recipe_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine \\\\"\n[kernel.k]\ncores = ["pool"]\n')
    design = load_design(path)
    for text in [*emulation_sources(design).own.values(), *hls_sources(design).values()]:
        assert not any(line.lstrip().startswith("//") and line.endswith("\\") for line in text.splitlines())
