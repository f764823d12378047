"""`fpga-dynamo serve`: results, metadata, refused requests, and batching."""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import fpga_dynamo
from fpga_dynamo.tools import cli
from tests.deployment.deployment_kit import SmallCnn
from tests.serving.serving_kit import Server, described, serving

pytest.importorskip("starlette")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `cnn`, whose sizes are fixed, and `rows`, with a dynamic batch of at least 2."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models")
    fpga_dynamo.export(SmallCnn().eval(), (torch.randn(1, 3, 8, 8),), folder / "cnn")
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).eval()
    shapes = ({0: Dim("rows", min=2, max=100)},)
    fpga_dynamo.export(model, (torch.randn(8, 16),), folder / "rows", dynamic_shapes=shapes)
    return folder


@pytest.fixture(scope="module")
def server(models: Path) -> Iterator[Server]:
    with serving(models / "cnn", models / "rows", "--max-batch", "16", "--max-body", "1") as started:
        yield started
    assert started.process.returncode == 0


def test_health_and_metadata(server: Server) -> None:
    assert server.get("/v2/health/live") == (200, {"live": True})
    assert server.get("/v2/health/ready") == (200, {"ready": True})
    assert server.get("/v2/models/cnn/ready") == (200, {"name": "cnn", "ready": True})
    assert server.get("/v2")[1]["extensions"] == ["binary_tensor_data"]
    status, about = server.get("/v2/models/rows")
    assert (status, about["name"]) == (200, "rows")
    assert about["inputs"] == [{"name": "input", "datatype": "FP32", "shape": [-1, 16]}]


def test_results_are_those_of_load(server: Server, models: Path) -> None:
    x = torch.randn(1, 3, 8, 8)
    expected = fpga_dynamo.load(models / "cnn")(x)
    status, results = server.infer("cnn", "x", x.numpy())
    assert status == 200
    for result, key in zip(results, ("logits", "turned"), strict=True):
        assert np.array_equal(result, expected[key].numpy())
    for data in (x.tolist(), x.flatten().tolist()):
        document = {"id": "7", "inputs": [{**described("x", x.numpy()), "data": data}], "outputs": [{"name": "linear"}]}
        status, answer = server.post("cnn", document)
        assert (status, answer["id"], answer["model_name"]) == (200, "7", "cnn")
        (output,) = answer["outputs"]
        assert (output["name"], output["shape"]) == ("linear", [1, 5])
        assert np.array_equal(np.float32(output["data"]), expected["logits"].numpy().flatten())


def test_dynamic_batching(server: Server, models: Path) -> None:
    """Each of many calls at once gets its own rows, one row alone as well."""
    loaded = fpga_dynamo.load(models / "rows")
    draw = np.random.default_rng(0)
    arrays = [draw.standard_normal((1 + i % 3, 16), np.float32) for i in range(60)]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda array: server.infer("rows", "input", array), arrays))
    for array, (status, results) in zip(arrays, answers, strict=True):
        expected = loaded(torch.from_numpy(np.concatenate([array, array]))).numpy()[: len(array)]
        assert status == 200
        np.testing.assert_allclose(results[0], expected, rtol=1e-5, atol=1e-6)
    text = server.request("GET", "/metrics")[2].decode()
    assert 'fpga_dynamo_requests_total{model="rows",status="200"}' in text
    calls, rows = (float(text.split(f'fpga_dynamo_batch_rows_{kind}{{model="rows"}} ')[1].split()[0]) for kind in
                   ("count", "sum"))  # fmt: skip
    assert rows >= sum(map(len, arrays)) and calls < rows


GOOD: dict[str, Any] = {"name": "input", "datatype": "FP32", "shape": [2, 2], "data": [1, 2, 3, 4]}


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], "must be a JSON object"),
        ({}, "'inputs' must be a list"),
        ({"inputs": [3]}, "'inputs' must be a list of objects"),
        ({"inputs": [{}]}, "must have a name"),
        ({"inputs": []}, "input 'input' is missing"),
        ({"inputs": [GOOD], "id": 3}, "'id' must be a string"),
        ({"inputs": [GOOD, GOOD]}, "is given twice"),
        ({"inputs": [{**GOOD, "name": "other"}]}, "has no input 'other', only 'input'"),
        ({"inputs": [{**GOOD, "datatype": "FP64"}]}, "its datatype must be one of FP32"),
        ({"inputs": [{**GOOD, "datatype": "INT64"}]}, "must be FP32, not INT64"),
        ({"inputs": [{**GOOD, "datatype": "BF16"}]}, "send the tensor in binary"),
        ({"inputs": [GOOD]}, r"must have shape \[-1, 16\], not \[2, 2\]"),
        ({"inputs": [{**GOOD, "shape": [-1, 4]}]}, "must be a list of sizes"),
        ({"inputs": [{**GOOD, "shape": [1, 16]}]}, "has 16 bytes, and its shape 64"),
        ({"inputs": [{**GOOD, "shape": [1 << 39, 16]}]}, "has 16 bytes"),
        ({"inputs": [{**GOOD, "data": "1"}]}, "must be a list"),
        ({"inputs": [{**GOOD, "data": [[1], [2, 3]]}]}, "no numbers of FP32 in equal rows"),
        ({"inputs": [{**GOOD, "data": [None, "1"]}]}, "no numbers of FP32"),
        ({"inputs": [{**GOOD, "datatype": "INT8", "data": [1, 300]}]}, "no numbers of INT8"),
        ({"inputs": [{**GOOD, "datatype": "INT64", "data": [1.5]}]}, "no numbers of INT64"),
        ({"inputs": [{**GOOD, "parameters": {"binary_data_size": 8}}]}, "has both data and binary_data_size"),
        ({"inputs": [{"name": "input", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": 4}}]},
         "and 0 bytes are left"),
        ({"inputs": [{**GOOD, "shape": [0, 16], "data": []}]}, "does not hold for these"),
        ({"inputs": [{**GOOD, "shape": [2, 16], "data": [0] * 32}], "outputs": [{"name": "x"}]}, "has no output 'x'"),
    ],
)  # fmt: skip
def test_refused_requests(server: Server, document: Any, sentence: str) -> None:
    status, answer = server.post("rows", document)
    assert status == 400
    assert re.search(sentence, answer["error"]) and "\n" not in answer["error"]


def test_refused_bodies(server: Server) -> None:
    assert server.post("none", {}) == (404, {"error": "there is no model 'none', only 'cnn', 'rows'"})
    assert server.request("GET", "/v2/models/rows/infer")[0] == 405
    assert server.request("GET", "/v3")[0] == 404
    status, _, body = server.request("POST", "/v2/models/rows/infer", b'{"inputs": [')
    assert status == 400 and b"is no JSON" in body
    status, _, body = server.request("POST", "/v2/models/rows/infer", b"[" * 100_000)
    assert status == 400 and b"is no JSON" in body
    for length in ("x", "-1", "99"):
        headers = {"Inference-Header-Content-Length": length}
        assert server.request("POST", "/v2/models/rows/infer", b"{}", headers)[0] == 400
    status, _, body = server.request("POST", "/v2/models/rows/infer", b"{}", {"Content-Encoding": "gzip"})
    assert status == 415 and b"content-encoding 'gzip' is not supported" in body
    large = b" " * ((1 << 20) + 1)
    status, _, body = server.request("POST", "/v2/models/rows/infer", large)
    assert (status, json.loads(body)) == (413, {"error": "the body has more than 1048576 bytes"})
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/v2/models/rows/infer", iter([large[:1000]] * 1100), encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()
    with socket.create_connection(("127.0.0.1", server.port)) as cut:
        cut.sendall(b"POST /v2/models/rows/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{")
    assert server.infer("rows", "input", np.ones((2, 16), np.float32))[0] == 200


def test_refused_command_lines(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert cli.main(["serve", str(models / "cnn"), "--port", port]) == 2
    assert "Address already in use" in capsys.readouterr().err
    assert cli.main(["serve", str(models / "cnn"), str(models / "cnn")]) == 2
    assert "two directories are called 'cnn'" in capsys.readouterr().err
    assert cli.main(["serve", str(tmp_path)]) == 2
    assert "is no exported model" in " ".join(capsys.readouterr().err.split())
    (tmp_path / "model.json").write_text("{}")
    assert cli.main(["serve", str(tmp_path), "--port", "0"]) == 2
    assert "model.json" in capsys.readouterr().err
