"""Pages of the documentation's site that do not lie in docs/: a hook of mkdocs, which `make docs` runs.

The README is the first page; CONTRIBUTING.md, CHANGELOG.md and the READMEs of hls_kernels are pages, too. The reference
of the command line is what ``--help`` prints, that of the Python API comes from docstrings. A link to a page becomes a
link within the site, one to a source its path. A link to a file that does not exist is an error.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.notebooks import TUTORIALS, notebook  # noqa: E402 - tests is not installed

COMMANDS = {
    "fpga-dynamo": ("run", "devices", "doctor", "fuzz", "ops", "estimate", "emulate", "soc"),
    "xclbin-build": ("info", "check", "csim", "estimate", "new", "--from-model"),
}
MODULES = ("fpga_dynamo", "fpga_dynamo.patterns", "fpga_dynamo.signal", "fpga_dynamo.quantize")
Schema = dict[str, Any]
FILES = {
    "docs/reference/files.md": ("xclbin_build/schemas/recipe.schema.json", "xclbin_build/schemas/platform.schema.json"),
    "docs/reference/study-files.md": tuple(
        f"fpga_dynamo/tools/soc/schemas/{name}.schema.json" for name in ("system", "workload", "sweep")
    ),
}
"""Pages that end with tables of the keys of file formats: the JSON schemas of these."""
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"(^ *```.*?^ *```\s*?$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)


def outside() -> dict[str, str]:
    """Place on the site of each page that lies outside of docs/, by its path in the repository."""
    kernels = {
        path.relative_to(ROOT).as_posix(): f"kernels/{path.parent.relative_to(ROOT / 'hls_kernels').as_posix()}.md"
        for path in (ROOT / "hls_kernels").rglob("README.md")
    }
    own = {name: name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "RELEASING.md", "SECURITY.md")}
    places = {"README.md": "index.md"} | own | {name: place.replace("/", "-").replace("kernels-", "kernels/", 1)
                                                for name, place in kernels.items()}  # fmt: skip
    return {name: place for name, place in places.items() if (ROOT / name).exists()}


def place_of(path: str) -> str | None:
    """Where a file of the repository is on the site; None if it is no part of it."""
    if path.startswith("docs/") and not path.endswith(".py"):
        return path.removeprefix("docs/")
    return outside().get(path)


def relinked(text: str, path: str) -> str:
    """A page with its links as they are on the site. path: of the page in the repository.

    Raises PluginError for a link to a file that does not exist.
    """
    here = place_of(path) or path

    def link(found: re.Match[str]) -> str:
        image, label, target = found.groups()
        file, hash_mark, anchor = target.partition("#")
        if "://" in target or not file:
            return found[0]
        named = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
        place = place_of(named)
        if not (ROOT / named).exists():
            raise PluginError(f"{path}: link to {target}, but there is no file {named}")
        if place is None:
            return label if label.startswith("`") else f"{label} (`{named}`)"
        return f"{image}[{label}]({posixpath.relpath(place, posixpath.dirname(here) or '.')}{hash_mark}{anchor})"

    parts = _FENCE.split(text)
    # A label may hold code, so code within a line stays where links are looked for.
    joined, blocks = "", []
    for part in parts:
        if part.lstrip().startswith("```"):
            # mkdocs knows the language only; what follows it is for the tests of the examples.
            blocks.append(re.sub(r"\A( *```\w+)[^\n]*", r"\1", part))
            joined += f"\0{len(blocks) - 1}\0"
        else:
            # No page refers to a link by its name: brackets in a row are a formula's.
            joined += part if part.startswith("`") else part.replace("][", "]\\[")
    return re.sub(r"\0(\d+)\0", lambda found: blocks[int(found[1])], _LINK.sub(link, joined))


def on_config(config: Any) -> Any:
    """Adds the folders whose pages are all listed to the navigation."""
    kernels = sorted(place for place in outside().values() if place.startswith("kernels/"))
    evaluation = sorted(f"evaluation/{path.name}" for path in (ROOT / "docs/evaluation").glob("*.md"))
    config["nav"] += [{"Kernels": kernels}, {"Evaluation": evaluation}]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that do not lie in docs/."""
    for name, place in outside().items():
        files.append(File.generated(config, place, content=(ROOT / name).read_text(encoding="utf-8")))
    for page in TUTORIALS:
        content = json.dumps(notebook(page), indent=1, ensure_ascii=False)
        files.append(File.generated(config, f"tutorials/{page.stem}.ipynb", content=content))
    files.append(File.generated(config, "reference/python.md", content=python_reference()))
    files.append(File.generated(config, "reference/command-line.md", content=command_line_reference()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page's text with the site's links."""
    place = page.file.src_uri
    path = next((name for name, other in outside().items() if other == place), f"docs/{place}")
    if not (ROOT / path).exists():  # generated below
        return markdown
    if ROOT / path in TUTORIALS:
        name = f"{Path(path).stem}.ipynb"
        return f"{relinked(markdown, path)}\n[This page as a Jupyter notebook]({name}), without outputs.\n"
    return relinked(markdown, path) + file_reference(FILES.get(path, ()))


def python_reference() -> str:
    """A section for each public module."""
    sections = ["# Python API\n\nPublic names are those in `__all__` of the modules on this page.\n"]
    for module in MODULES:
        sections.append(f"::: {module}\n    options:\n      members_order: alphabetical\n")
    return "\n".join(sections)


def file_reference(schemas: Sequence[str]) -> str:
    """A table of keys for each table of a file format, from the JSON schemas of these paths."""
    sections = []
    for path in schemas:
        schema = json.loads((ROOT / path).read_text(encoding="utf-8"))
        sections.append(f"\n## {schema['title']}\n\n{schema['description']}\n")
        sections += _tables(schema, schema["$defs"], "")
    return "\n".join(sections)


def _tables(schema: Schema, shared: Schema, where: str) -> list[str]:
    """The table of a schema's keys, then those of the tables within it."""
    rows, inner = ["| key | value | default | meaning |", "|---|---|---|---|"], []
    for key, given in schema.get("properties", {}).items():
        value = _resolved(given, shared)
        default = f"`{json.dumps(value['default'])}`" if "default" in value else ""
        rows.append(f"| `{key}` | {_kind(value, shared)} | {default} | {value.get('description', '')} |")
        item, path = value, f"{where}.{key}".strip(".")
        if value.get("type") == "array":
            item, path = value["items"], f"[{path}]"
        elif isinstance(value.get("additionalProperties"), dict):
            item, path = value["additionalProperties"], f"{path}.NAME"
        item = _resolved(item, shared)
        if "properties" not in item:
            choices = (_resolved(each, shared) for each in item.get("oneOf", ()))
            item = next((choice for choice in choices if "properties" in choice), item)
        if "properties" in item:
            inner += [f"### `[{path}]`\n", *_tables(item, shared, path)]
    return ["\n".join(rows) + "\n", *inner]


def _resolved(value: Schema, shared: Schema) -> Schema:
    """A schema in place of a reference to it; another file's is a table."""
    if "$ref" not in value:
        return value
    _, inside, name = value["$ref"].rpartition("#/$defs/")
    return (shared[name] if inside else {"type": "object"}) | value


def _kind(value: Schema, shared: Schema) -> str:
    """What a value may be, in words."""
    if "enum" in value:
        return ", ".join(f"`{json.dumps(each)}`" for each in value["enum"])
    if "oneOf" in value:
        return " or ".join(_kind(_resolved(each, shared), shared) for each in value["oneOf"])
    words = {"object": "table", "string": "text", "array": "list"}.get(value["type"], value["type"])
    least, most = value.get("minimum"), value.get("maximum")
    if "exclusiveMinimum" in value:
        words += f" above {value['exclusiveMinimum']}"
    if least is not None:
        words += f" from {least}"
    return words + (f" to {most:g}" if most is not None else "")


def command_line_reference() -> str:
    """What each command prints for ``--help``."""
    sections = ["# Command line\n"]
    for command, subcommands in COMMANDS.items():
        sections.append(f"## {command}\n\n```text\n{_help(command)}```\n")
        sections += [f"### {command} {name}\n\n```text\n{_help(command, name)}```\n" for name in subcommands]
    return "\n".join(sections)


def _help(command: str, *words: str) -> str:
    module = {"fpga-dynamo": "fpga_dynamo.tools.cli", "xclbin-build": "xclbin_build"}[command]
    run = [sys.executable, "-m", module, *words, "--help"]
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run(run, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise PluginError(f"{' '.join(run)}: {done.stderr}")
    return done.stdout
