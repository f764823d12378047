"""The C API and the Python module for numpy that an exported model has, over the package's own library."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import fpga_dynamo
from fpga_dynamo import _native
from tests.deployment.deployment_kit import Encoder, SmallCnn, poison_new_tensors


def wrapper(directory: Path) -> Any:
    """The module fd_model.py of an exported model."""
    spec = importlib.util.spec_from_file_location("exported_fd_model", directory / "fd_model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def opened(directory: Path, **settings: Any) -> Any:
    return wrapper(directory).Model(directory, _native.__file__, **settings)


def test_numpy_wrapper_has_the_bits_of_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(2, 3, 8, 8)
    path = fpga_dynamo.export(SmallCnn().eval(), (x,), tmp_path / "cnn")
    model = opened(path)
    assert [name for name, _, _ in model.inputs] == ["x"]
    poison_new_tensors(monkeypatch)
    logits, turned = model(x.numpy())
    expected = fpga_dynamo.load(path)(x)
    assert np.array_equal(logits, expected["logits"].numpy())
    assert np.array_equal(turned, expected["turned"].numpy())
    with pytest.raises(RuntimeError, match=r"must have shape \(2, 3, 8, 8\), not \(1, 3, 8, 8\)"):
        model(x.numpy()[:1])
    with pytest.raises(RuntimeError, match="has 1 inputs, and 2 were given"):
        model(x.numpy(), x.numpy())


def test_shapes_that_change(tmp_path: Path) -> None:
    tokens = torch.randint(50, (2, 9))
    shapes = {"tokens": {1: Dim("length", max=64)}}
    path = fpga_dynamo.export(Encoder().eval(), (tokens,), tmp_path / "encoder", dynamic_shapes=shapes)
    model, loaded = opened(path), fpga_dynamo.load(path)
    for length in (9, 20):
        tokens = torch.randint(50, (2, length))
        assert np.array_equal(model(tokens.numpy())[0], loaded(tokens).numpy())
    with pytest.raises(RuntimeError, match="does not hold for these"):
        model(tokens.numpy()[:, :1])


def test_functions_refuse_what_they_cannot_use(tmp_path: Path) -> None:
    path = fpga_dynamo.export(nn.Linear(4, 3).eval(), (torch.randn(2, 4),), tmp_path / "linear")
    library = ctypes.CDLL(_native.__file__)
    library.fd_last_error.restype = ctypes.c_char_p
    model = ctypes.c_void_p()
    invalid_argument, invalid_model = 1, 2

    def said(status: int) -> str:
        assert status == invalid_argument
        sentence: bytes = library.fd_last_error()
        return sentence.decode()

    assert "null" in said(library.fd_model_open(None, None, ctypes.byref(model)))
    assert "null" in said(library.fd_model_open(str(path).encode(), None, None))
    assert library.fd_model_open(b"/no/such/directory", None, ctypes.byref(model)) == invalid_model
    assert b"'/no/such/directory/model.json' cannot be read" in library.fd_last_error()
    assert not model.value
    assert "null" in said(library.fd_model_run(None, None, 0, None, 0))
    assert library.fd_model_open(str(path).encode(), None, ctypes.byref(model)) == 0
    assert "1 inputs, and 0 were given" in said(library.fd_model_run(model, None, ctypes.c_size_t(0), None, 0))
    assert "pointer to the inputs is null" in said(library.fd_model_run(model, None, ctypes.c_size_t(1), None, 0))
    assert "there is no input 5" in said(library.fd_model_input(model, ctypes.c_size_t(5), ctypes.byref(model)))
    assert "null" in said(library.fd_model_output(model, ctypes.c_size_t(0), None))
    assert library.fd_api_version() == _native.EXPORTED_MODEL_API == 1
    library.fd_model_close(model)
    library.fd_model_close(None)


def test_a_card_that_is_not_there(tmp_path: Path) -> None:
    path = fpga_dynamo.export(nn.Linear(4, 3).eval(), (torch.randn(2, 4),), tmp_path / "linear")
    with pytest.raises(RuntimeError, match="there is no card 63"):
        opened(path, device=63)
    with pytest.raises(fpga_dynamo.DeviceError, match="there is no card 63"):
        fpga_dynamo.load(path, device=63)


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_inputs_in_constant_memory(tmp_path: Path) -> None:
    """The C++ wrapper accepts a pointer to constant elements."""
    source = tmp_path / "use.cpp"
    source.write_text('#include "fd_model.hpp"\nfd::tensor of(const float* x) { return fd::tensor_of(x, {1, 4}); }\n')
    package = Path(fpga_dynamo.__file__).parent
    folders = [f"-I{package / 'deployment/templates'}", f"-I{package / 'native/rt'}"]
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *folders, str(source)]
    subprocess.run(command, check=True)
