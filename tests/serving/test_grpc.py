"""`fpga-dynamo serve --grpc-port`: the service of KServe v2, asked by NVIDIA's client and by bare messages."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
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
from tests.serving.serving_kit import Server, serving

grpc: Any = pytest.importorskip("grpc")
client_of: Any = pytest.importorskip("tritonclient.grpc")
messages: Any = pytest.importorskip("tritonclient.grpc.service_pb2")
service: Any = pytest.importorskip("tritonclient.grpc.service_pb2_grpc")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models")
    fpga_dynamo.export(SmallCnn().eval(), (torch.randn(1, 3, 8, 8),), folder / "cnn")
    rows = {"input": {0: Dim("rows", min=2, max=100)}}
    fpga_dynamo.export(nn.Linear(4, 3).eval(), (torch.randn(8, 4),), folder / "rows", dynamic_shapes=rows)
    counts = nn.Embedding(10, 3).eval()
    fpga_dynamo.export(counts, (torch.tensor([[1, 2]]),), folder / "table")
    return folder


@pytest.fixture(scope="module")
def server(models: Path) -> Iterator[Server]:
    with serving(models / "cnn", models / "rows", models / "table", "--grpc-port", "0", "--max-body", "1") as started:
        yield started
    assert started.process.returncode == 0


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    with client_of.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as opened:
        yield opened


@pytest.fixture
def stub(server: Server) -> Iterator[Any]:
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        yield service.GRPCInferenceServiceStub(channel)


def test_health_and_metadata(client: Any) -> None:
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("cnn")
    assert client.get_server_metadata().name == "fpga_dynamo"
    about = client.get_model_metadata("rows")
    assert [(i.name, i.datatype, list(i.shape)) for i in about.inputs] == [("input", "FP32", [-1, 4])]


def test_results_are_those_of_load(client: Any, models: Path) -> None:
    x = torch.randn(1, 3, 8, 8)
    expected = fpga_dynamo.load(models / "cnn")(x)
    given = client_of.InferInput("x", list(x.shape), "FP32")
    given.set_data_from_numpy(x.numpy())
    answer = client.infer("cnn", [given], request_id="7")
    assert answer.get_response().id == "7"
    names = [output.name for output in answer.get_response().outputs]
    for name, wanted in zip(names, (expected["logits"], expected["turned"]), strict=True):
        assert np.array_equal(answer.as_numpy(name), wanted.numpy())
    one = client.infer("cnn", [given], outputs=[client_of.InferRequestedOutput(names[1])])
    assert [output.name for output in one.get_response().outputs] == names[1:]


def test_numbers_in_fields_of_their_type(stub: Any, models: Path) -> None:
    request = messages.ModelInferRequest(model_name="table")
    given = request.inputs.add(name="input", datatype="INT64", shape=[1, 2])
    given.contents.int64_contents.extend([3, 9])
    answer = stub.ModelInfer(request)
    expected = fpga_dynamo.load(models / "table")(torch.tensor([[3, 9]]))
    assert answer.raw_output_contents[0] == expected.numpy().tobytes()


def _request(model: str = "rows", shape: tuple[int, ...] = (2, 4), datatype: str = "FP32", **settings: Any) -> Any:
    request = messages.ModelInferRequest(model_name=model, **settings)
    request.inputs.add(name="input", datatype=datatype, shape=shape)
    return request


def _raw(request: Any, *contents: bytes) -> Any:
    request.raw_input_contents.extend(contents)
    return request


def _field(request: Any, field: str, numbers: list[Any]) -> Any:
    getattr(request.inputs[0].contents, field).extend(numbers)
    return request


def _twice(request: Any) -> Any:
    request.inputs.add(name="input", datatype="FP32", shape=[2, 4])
    return _raw(request, bytes(32), bytes(32))


INVALID, ABSENT = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    ("make", "code", "sentence"),
    [
        (lambda: _raw(_request("other"), bytes(32)), ABSENT, "there is no model 'other'"),
        (lambda: _raw(_request(model_version="3"), bytes(32)), ABSENT, "has no versions"),
        (lambda: _raw(_request(datatype="FP64"), bytes(32)), INVALID, "its datatype must be one of"),
        (lambda: _raw(_request(datatype="INT32"), bytes(32)), INVALID, "must be FP32, not INT32"),
        (lambda: _raw(_request(shape=(2, 5)), bytes(40)), INVALID, "must have shape [-1, 4], not [2, 5]"),
        (lambda: _raw(_request(shape=(1, 4)), bytes(16)), INVALID, "does not hold"),
        (lambda: _raw(_request(shape=(-2, 4)), bytes(32)), INVALID, "its shape must be a list of sizes"),
        (lambda: _raw(_request(), bytes(31)), INVALID, "has 31 bytes, and its shape 32"),
        (lambda: _raw(_request(), bytes(32), bytes(1)), INVALID, "2 entries for 1 inputs"),
        (lambda: _field(_request(), "fp64_contents", [0.5] * 8), INVALID, "belong in fp32_contents"),
        (lambda: _field(_request(datatype="FP16"), "fp32_contents", [0.5] * 8), INVALID, "in raw_input_contents"),
        (lambda: _field(_request(datatype="INT8"), "int_contents", [300] * 8), INVALID, "no numbers of INT8"),
        (lambda: _twice(_request()), INVALID, "is given twice"),
        (lambda: messages.ModelInferRequest(model_name="rows"), INVALID, "input 'input' is missing"),
        (lambda: _raw(_request(outputs=[{"name": "no"}]), bytes(32)), INVALID, "the model has no output 'no'"),
        (lambda: _raw(_request(shape=(1 << 40, 1 << 40)), bytes(32)), INVALID, "must have shape"),
        (lambda: _raw(_request(), bytes(2 << 20)), grpc.StatusCode.RESOURCE_EXHAUSTED, "larger than max"),
    ],
)
def test_refused_requests(stub: Any, make: Callable[[], Any], code: Any, sentence: str) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        stub.ModelInfer(make())
    assert refused.value.code() is code and sentence in refused.value.details()
    assert "\n" not in refused.value.details()
    assert stub.ModelInfer(_raw(_request(), bytes(32))).outputs[0].shape == [2, 3], "others are answered"


def test_bytes_that_are_no_message_harm_nobody(server: Server, stub: Any) -> None:
    for content in (b"GET / HTTP/1.1\r\n\r\n", bytes(1000), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 64):
        with socket.create_connection(("127.0.0.1", server.grpc_port)) as connection:
            connection.sendall(content)
    assert stub.ServerLive(messages.ServerLiveRequest()).live


def test_requests_of_both_protocols_are_counted(server: Server, stub: Any) -> None:
    stub.ModelInfer(_raw(_request(), bytes(32)))
    with pytest.raises(grpc.RpcError):
        stub.ModelInfer(_raw(_request(), bytes(31)))
    text = server.request("GET", "/metrics")[2].decode()
    assert 'model="rows",status="200"' in text and 'model="rows",status="400"' in text


def test_a_port_that_is_taken(models: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert cli.main(["serve", str(models / "rows"), "--port", "0", "--grpc-port", port]) == 2
    assert f"gRPC cannot listen on 127.0.0.1:{port}" in capfd.readouterr().err
