"""The backend ahead of time: a part of an edge program as the files of an exported model.

The files lie in the .pte as named data, each under the digest of its content, so parts that share an xclbin have it
once. The delegate's own bytes are one line for each file: its name and its key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch.export import ExportedProgram

from fpga_dynamo.deployment.document import write
from fpga_dynamo.deployment.export import lowered, made_by, parse_options
from fpga_dynamo.executorch.edge import captured
from fpga_dynamo.frontend.platform import with_recipe
from fpga_dynamo.options import Options
from fpga_dynamo.runtime.cards.card import xclbin_path

ALIGNMENT = 64


@final
class FpgaBackend(BackendDetails):
    """What executorch calls for each part that :class:`FpgaPartitioner` has chosen."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """The part as bytes. Raises ExportError for one with a node that would need eager mode."""
        specs = {spec.key: json.loads(spec.value) for spec in compile_specs}
        options, xclbin = xclbin_of(specs["options"], edge_program)
        graph = captured(edge_program, "a part of a program of executorch")
        files = write(graph, *lowered(graph, options, xclbin), made_by(graph))
        contents = {
            "model.json": files.text().encode(),
            "commands.bin": files.commands,
            "weights.bin": files.weights.numpy().tobytes(),
            "model.xclbin": xclbin.read_bytes(),
        }
        store = NamedDataStore()
        lines = []
        for name, content in contents.items():
            key = f"fpga_dynamo/{hashlib.sha256(content).hexdigest()}"
            if not store.pte_data.get(key):
                store.add_named_data(key, content, ALIGNMENT)
            lines.append(f"{name} {key}\n")
        return PreprocessResult("".join(lines).encode(), data_store_output=store.get_named_data_store_output())


def xclbin_of(given: Mapping[str, Any], program: ExportedProgram) -> tuple[Options, Path]:
    """The options of a part and its xclbin, which is built if need be."""
    options = parse_options(given)
    tensors: Sequence[Any] = list(program.state_dict.values())
    return options, xclbin_path(with_recipe(options, program.graph_module, tensors), None)
