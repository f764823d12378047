"""Who gets no card: wrong tokens, other versions, full servers; and that clients who go leave nothing allocated."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xclbin_build
from fpga_dynamo import _native
from fpga_dynamo.device_address import parse
from fpga_dynamo.errors import DeviceError, OptionError
from fpga_dynamo.runtime.drivers.remote import frames
from fpga_dynamo.runtime.drivers.remote.driver import RemoteDriver
from fpga_dynamo.runtime.drivers.remote.link import Link
from fpga_dynamo.tools.cli import main
from tests.card_server.card_server_kit import KINDS, Served, serving, status, wait_until_empty, write_token
from tests.driver.xrt_kit import HERE, ROOT

RECIPE = HERE / "data/conformance.toml"
COMPLETED = _native.ert_cmd_state.ERT_CMD_STATE_COMPLETED


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("server"), "--clients", "3", "--memory", "64", kind=request.param) as running:
        yield running


def opened(driver: RemoteDriver) -> tuple[Any, Any]:
    """A device with the kernels of the conformance tests, and its UUID."""
    device = driver.device(0)
    return device, device.load_xclbin(str(xclbin_build.cached(RECIPE, "sw_emu")))


def test_a_wrong_token_is_one_sentence(server: Served, tmp_path: Path) -> None:
    wrong = write_token(tmp_path, "f" * 32)
    with pytest.raises(DeviceError) as caught:
        RemoteDriver(f"{server.address}?token-file={wrong}").device(0)
    sentence = f"card server 127.0.0.1:{server.port}: the token is wrong: both ends need a token file with the same"
    assert str(caught.value).startswith(sentence)


def test_a_server_without_the_token_is_found_out(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fpga_dynamo.runtime.drivers.remote.token.is_proof", lambda *_: False)
    with pytest.raises(DeviceError, match="does not know the token"):
        RemoteDriver(server.driver).device(0)


@pytest.mark.parametrize(("version", "end"), [(2, "server"), (0, "client"), ("1", "client"), (None, "client")])
def test_another_version_of_the_protocol_is_one_sentence(
    server: Served, monkeypatch: pytest.MonkeyPatch, version: Any, end: str
) -> None:
    monkeypatch.setattr(frames, "PROTOCOL", version)
    with pytest.raises(DeviceError) as caught:
        Link(parse(server.device()))
    assert "speaks version 1 of the protocol" in str(caught.value)
    assert str(caught.value).endswith(f"update fpga_dynamo at the {end}")


def test_a_full_server_is_one_sentence(server: Served) -> None:
    drivers = [RemoteDriver(server.driver) for _ in range(3)]
    for driver in drivers:
        driver.device(0)
    with pytest.raises(DeviceError, match=r"the server is full: it has 3 client\(s\)"):
        RemoteDriver(server.driver).device(0)
    drivers.pop().link().close()
    end = time.monotonic() + 20
    while True:
        try:
            RemoteDriver(server.driver).device(0)
        except DeviceError:
            assert time.monotonic() < end
            time.sleep(0.05)
        else:
            break


def test_a_full_card_is_one_sentence(server: Served) -> None:
    driver = RemoteDriver(server.driver)
    device, uuid = opened(driver)
    group = driver.kernel(device, uuid, "vadd").group_id(0)
    held = [driver.bo(device, 40 << 20, driver.bo.flags.device_only, group)]
    with pytest.raises(MemoryError) as caught:
        held.append(driver.bo(device, 40 << 20, driver.bo.flags.device_only, group))
    assert isinstance(caught.value, DeviceError)
    assert "41943040 of 67108864 bytes are in use by all clients" in str(caught.value)
    assert str(caught.value).startswith(f"card server 127.0.0.1:{server.port}: ")
    assert status(server)["bytes"] == 40 << 20
    held.clear()
    driver.bo(device, 40 << 20, driver.bo.flags.device_only, group)
    driver.link().close()
    wait_until_empty(server)


def test_an_index_beyond_the_cards_is_one_sentence(server: Served) -> None:
    with pytest.raises(DeviceError, match=f"127.0.0.1:{server.port} has no card 7: it has 1"):
        RemoteDriver(server.driver).device(7)


VANISHES = """
import sys
import tests.driver.bare_package
from tests.driver.conformance_kit import HANG, LONG, Card
import numpy as np
card = Card()
held = [card.array(np.zeros(1 << 20, np.uint8)) for _ in range(8)]
run = card.misbehaving(HANG)
arena = card.array(np.zeros(16, np.int32), "misbehave")
run.set_arg(0, arena)
print("ready", flush=True)
run.execute_io([], [], arena, 10 * LONG) if sys.argv[1] == "launch" else run.start()
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["launch", "start"])
def test_a_client_that_vanishes_leaves_nothing(server: Served, how: str) -> None:
    client = subprocess.Popen(
        [sys.executable, "-c", VANISHES, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "DRIVER_UNDER_TEST": server.driver},
    )  # fmt: skip
    assert client.stdout is not None and client.stdout.readline() == "ready\n"
    time.sleep(0.5)
    assert status(server)["bytes"] >= 8 << 20
    client.send_signal(signal.SIGKILL)
    client.wait()
    wait_until_empty(server)
    driver = RemoteDriver(server.driver)
    device, uuid = opened(driver)
    kernel = driver.kernel(device, uuid, "misbehave")  # the unit of the emulator is free again
    out = driver.bo(device, 64, driver.bo.flags.normal, kernel.group_id(0))
    assert kernel(out, 0, 0).wait(20000) == COMPLETED


def test_a_run_in_the_middle_of_which_the_connection_is_cut_ends(server: Served) -> None:
    driver = RemoteDriver(server.driver)
    device, uuid = opened(driver)
    kernel = driver.kernel(device, uuid, "misbehave")
    out = driver.bo(device, 64, driver.bo.flags.normal, kernel.group_id(0))
    run = kernel(out, 1, 0)
    assert run.wait(50) == _native.ert_cmd_state.ERT_CMD_STATE_TIMEOUT
    driver.link().close()
    for use in (run.state, run.abort, lambda: run.wait(10), run.start, lambda: device.load_xclbin("x")):
        with pytest.raises((DeviceError, _native.XclbinError)):
            use()
    with pytest.raises(DeviceError, match=r"was lost \(it was closed here\); the next call connects again"):
        out.sync(_native.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE)
    again, _ = opened(driver)
    other = driver.kernel(again, uuid, "vadd")
    fresh = driver.run(other)
    fresh.set_arg(0, out)
    with pytest.raises(DeviceError, match="a connection that was lost"):
        fresh.start()
    driver.link().close()
    wait_until_empty(server)


def test_content_is_not_taken_under_another_name(server: Served) -> None:
    driver = RemoteDriver(server.driver)
    device, uuid = opened(driver)
    out = driver.bo(device, 1 << 16, driver.bo.flags.normal, driver.kernel(device, uuid, "vadd").group_id(0))
    with pytest.raises(DeviceError, match="does not have the digest"):
        driver.link().request("write", bo=out.number, offset=0, digest="0" * 64, payload=[np.ones(1 << 16, np.uint8)])


def test_nobody_at_the_address_is_one_sentence(server: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(DeviceError, match=f"card server 127.0.0.1:{port} cannot be reached: Connection refused"):
        RemoteDriver(f"tcp://127.0.0.1:{port}?token-file={server.token_file}").device(0)
    with pytest.raises(DeviceError, match=r"card server no\.such\.host\.invalid:1 cannot be reached"):
        RemoteDriver(f"tcp://no.such.host.invalid:1?token-file={server.token_file}").device(0)


def test_a_host_that_does_not_answer_is_left_alone_for_a_while(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []

    def silence(*arguments: Any) -> socket.socket:
        attempts.append(arguments)
        raise TimeoutError

    driver = RemoteDriver(server.driver)
    with monkeypatch.context() as patched:
        patched.setattr(socket, "create_connection", silence)
        for _ in range(3):
            with pytest.raises(DeviceError, match="cannot be reached: no answer within 10 s"):
                driver.device(0)
        assert len(attempts) == 1
    driver._silent_until = 0.0  # the while is over
    assert driver.device(0).index == 0


def test_another_service_at_the_address_is_one_sentence(server: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        client = subprocess.Popen(
            [sys.executable, "-c", "import sys; from fpga_dynamo.runtime.drivers import select; "
             "select(sys.argv[1]).device(0)", f"tcp://127.0.0.1:{port}?token-file={server.token_file}"],
            stderr=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip
        connection, _ = other.accept()
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        errors = client.communicate(timeout=60)[1]
        connection.close()
    assert "does not speak the protocol of a card server: it sent b'HTTP'" in errors


# Token files


@pytest.mark.parametrize(
    ("mode", "content", "sentence"),
    [
        (0o644, "0" * 32, r"can be read by others \(mode 644\)"),
        (0o620, "0" * 32, r"can be read by others \(mode 620\)"),
        (0o600, "short", "has 5 characters, and a token has 16 to 4096"),
        (0o600, "0" * 5000, "characters, and a token has"),
    ],
)
def test_token_files_that_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: int, content: str, sentence: str
) -> None:
    path = write_token(tmp_path, content)
    path.chmod(mode)
    with pytest.raises(OptionError, match=sentence):
        RemoteDriver(f"tcp://127.0.0.1:1?token-file={path}").device(0)
    assert main(["card-server", "--listen", "127.0.0.1:0", "--token-file", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"fpga-dynamo: token file {path} ")


def test_a_token_file_in_a_folder_of_everybody_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    path = write_token(folder)
    with pytest.raises(OptionError, match=r"can be changed by others: .*shared can be written by everyone"):
        RemoteDriver(f"tcp://127.0.0.1:1?token-file={path}").device(0)


def test_a_missing_token_file_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FPGA_DYNAMO_TOKEN_FILE", raising=False)
    with pytest.raises(OptionError, match="a card server needs a token: set FPGA_DYNAMO_TOKEN_FILE"):
        RemoteDriver("tcp://127.0.0.1:1").device(0)
    monkeypatch.setenv("FPGA_DYNAMO_TOKEN_FILE", str(tmp_path / "none"))
    with pytest.raises(OptionError, match="cannot be read: No such file or directory; make one with"):
        RemoteDriver("tcp://127.0.0.1:1").device(0)
    monkeypatch.setenv("FPGA_DYNAMO_TOKEN_FILE", str(tmp_path))
    with pytest.raises(OptionError, match="cannot be read: Is a directory"):
        RemoteDriver("tcp://127.0.0.1:1").device(0)


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    key, file = folder / "key.pem", folder / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(file), "-days", "2", "-subj", "/CN=card", "-addext"]
    try:
        subprocess.run([*command, "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl: apt-get install openssl")
    key.chmod(0o600)
    return file, key


@pytest.mark.parametrize("kind", KINDS)
def test_tls(kind: str, certificate: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, key = certificate
    with serving(tmp_path, "--tls-cert", str(file), "--tls-key", str(key), kind=kind) as server:
        assert server.address.startswith("tls://")
        driver = RemoteDriver(f"{server.driver}&ca-file={file}")
        device, uuid = opened(driver)
        kernel = driver.kernel(device, uuid, "vadd")
        values = np.arange(1 << 20, dtype=np.float32)
        buffers = [driver.bo(device, values.nbytes, driver.bo.flags.normal, kernel.group_id(i)) for i in range(3)]
        for buffer in buffers[:2]:
            buffer.write(values.tobytes(), 0)
            buffer.sync(driver.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE)
        assert kernel(*buffers, values.size).wait(20000) == COMPLETED
        buffers[2].sync(driver.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE)
        np.testing.assert_array_equal(np.frombuffer(buffers[2].map(), np.float32), 2 * values)
        with pytest.raises(DeviceError, match="its certificate is not trusted: self-signed certificate"):
            RemoteDriver(server.driver).device(0)
        with pytest.raises(DeviceError, match=f"card server 127.0.0.1:{server.port} cannot be reached"):
            RemoteDriver(server.driver.replace("tls://", "tcp://")).device(0)
        monkeypatch.setenv("FPGA_DYNAMO_CA_FILE", str(file))
        assert RemoteDriver(server.driver).device(0).index == 0
        monkeypatch.setenv("FPGA_DYNAMO_CA_FILE", str(tmp_path / "none"))
        with pytest.raises(OptionError, match="cannot be read: No such file"):
            RemoteDriver(server.driver).device(0)


def test_tls_where_the_server_has_none(server: Served) -> None:
    with pytest.raises(DeviceError, match=r"cannot be reached: (TLS failed|the peer closed|Connection reset)"):
        RemoteDriver(server.driver.replace("tcp://", "tls://")).device(0)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--tls-key", "KEY"], "--tls-key needs --tls-cert"),
        (["--tls-cert", "KEY", "--tls-key", "KEY"], "--tls-cert"),
        (["--tls-cert", "CERT"], "private key"),
        (["--only-own-xclbin"], "--only-own-xclbin needs --xclbin"),
        (["--xclbin", "none.xclbin"], "--xclbin none.xclbin: No such file"),
        (["--driver", "pyxrt"], "driver 'pyxrt' cannot be used here"),
        (["--listen", "192.0.2.1:0"], "--listen '192.0.2.1':0: "),
    ],
)
def test_command_lines_that_are_refused(
    certificate: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    sentence: str,
) -> None:
    names = {"CERT": str(certificate[0]), "KEY": str(certificate[1])}
    os.chmod(certificate[0], 0o644)
    token = write_token(tmp_path)
    given = [
        "card-server",
        "--listen",
        "127.0.0.1:0",
        "--token-file",
        str(token),
        *(names.get(a, a) for a in arguments),
    ]
    assert main(given) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("fpga-dynamo: ") and errors.count("\n") == 1 and sentence in errors, errors
