"""`fpga-dynamo card-server`."""

from __future__ import annotations

import argparse
import hashlib
import ipaddress
import logging
import os
import signal
import socket
import ssl
import sys
import tempfile
from pathlib import Path
from typing import Any

from fpga_dynamo.errors import FpgaError, OptionError
from xclbin_build.arguments import whole
from xclbin_build.trusted_path import UntrustedPathError, check_named, printable

DONE = 0
_MOST_PORT = 65535
_MEBIBYTE = 1 << 20


def add_command(commands: Any) -> None:
    """Adds `card-server` to the commands of `fpga-dynamo`."""
    serve = commands.add_parser("card-server", help="give other machines this machine's cards")
    serve.add_argument("--listen", type=_place, metavar="HOST:PORT", help="port 0: any free one")
    serve.add_argument("--token-file", type=Path, metavar="F", help="the secret that clients must have")
    serve.add_argument("--tls-cert", type=Path, metavar="F", help="certificate (PEM); clients use tls:// then")
    serve.add_argument("--tls-key", type=Path, metavar="F", help="its private key (PEM), if it is another file")
    serve.add_argument("--driver", choices=("emulated", "xrt", "pyxrt"), help="xrt if it sees a card, else emulated")
    serve.add_argument("--xclbin", type=Path, metavar="F", help="what clients run on who name no xclbin")
    serve.add_argument("--only-own-xclbin", action="store_true", help="clients may load no other")
    serve.add_argument("--clients", type=whole(), default=16, metavar="N", help="clients at a time (16)")
    serve.add_argument("--memory", type=whole(), metavar="MIB", help="device memory of all clients (as the card has)")
    serve.add_argument(
        "--keep", type=whole(), default=1024, metavar="MIB", help="host memory for weights that are kept (1024)"
    )
    serve.add_argument(
        "--export", type=Path, metavar="DIR", help="write the server in C++ there, for a board without Python"
    )
    serve.set_defaults(action=_serve)


def _place(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not host or not port.isascii() or not port.isdigit() or int(port) > _MOST_PORT:
        raise argparse.ArgumentTypeError(f"{text[:60]!a} is not HOST:PORT")
    return host, int(port)


def _export(arguments: argparse.Namespace) -> int:
    from fpga_dynamo.card_server.sources import write_sources

    if arguments.listen is not None or arguments.token_file is not None:
        raise OptionError("--export writes sources and serves nothing; give --listen and --token-file to the program")
    path = write_sources(arguments.export)
    print(f"wrote {path}; build it: cmake -S {path} -B {path / 'build'} && cmake --build {path / 'build'}")
    return DONE


def _serve(arguments: argparse.Namespace) -> int:
    if arguments.export is not None:
        return _export(arguments)
    for name in ("listen", "token_file"):
        if getattr(arguments, name) is None:
            raise OptionError(f"--{name.replace('_', '-')} is missing; see `fpga-dynamo card-server --help`")
    from fpga_dynamo.card_server.cards import Cards, Limits
    from fpga_dynamo.card_server.server import CardServer
    from fpga_dynamo.runtime.drivers.remote.token import read_token

    secret = read_token(arguments.token_file)
    tls = _tls(arguments.tls_cert, arguments.tls_key)
    offered = _offered(arguments.xclbin)
    if arguments.only_own_xclbin and offered is None:
        raise OptionError("--only-own-xclbin needs --xclbin, the one that clients may load")
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    limits = Limits(
        clients=arguments.clients,
        device_bytes=(arguments.memory or 1 << 40) * _MEBIBYTE,
        kept_bytes=arguments.keep * _MEBIBYTE,
    )
    with tempfile.TemporaryDirectory(prefix="fpga-dynamo-card-server-") as folder:
        cards = Cards(_driver(arguments.driver), Path(folder), limits, offered, arguments.only_own_xclbin)
        if not cards.count:
            raise FpgaError(f"driver '{cards.name}' sees no card; see `fpga-dynamo doctor`")
        server = CardServer(cards, secret, tls)
        host, port = arguments.listen
        try:
            family = socket.getaddrinfo(host, port)[0][0]
            listener = socket.create_server((host, port), family=family)
        except (OSError, UnicodeError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or error
            raise FpgaError(f"--listen {host[:60]!a}:{port}: {reason}; give another") from error
        with listener:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: server.stop())
            if tls is None and not _is_loopback(listener.getsockname()[0]):
                print(
                    "warning: without --tls-cert everybody on the network can read and change what clients send",
                    file=sys.stderr,
                )
            shown = f"[{host}]" if ":" in host else host
            where = f"{'tls' if tls else 'tcp'}://{shown}:{listener.getsockname()[1]}"
            print(f"ready on {where}: {cards.count} card(s), driver {cards.name}", flush=True)
            server.serve(listener)
    return DONE


def _driver(chosen: str | None) -> str:
    """The driver that is named by the option or the environment, else that which sees a card."""
    from fpga_dynamo.runtime.drivers import select

    chosen = chosen or os.environ.get("FPGA_DYNAMO_DRIVER")
    if chosen:
        return chosen
    try:
        return "xrt" if select("xrt").enumerate_devices() else "emulated"
    except FpgaError:  # where there is no XRT
        return "emulated"


def _tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    from fpga_dynamo.runtime.drivers.remote.token import read_private

    if certificate is None:
        if key is not None:
            raise OptionError("--tls-key needs --tls-cert, the certificate of that key")
        return None
    read_private(key or certificate, "private key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else getattr(error, "strerror", None)
        raise OptionError(f"--tls-cert {printable(certificate)}: {reason or error}") from error
    return context


def _no_password() -> str:
    raise ValueError("the private key has a password; give one without, which only you can read")


def _offered(path: Path | None) -> tuple[str, bytes] | None:
    if path is None:
        return None
    try:
        check_named(path, "xclbin")
        content = path.read_bytes()
    except UntrustedPathError as error:
        raise OptionError(str(error)) from error
    except OSError as error:
        raise OptionError(f"--xclbin {printable(path)}: {error.strerror or error}") from error
    return hashlib.sha256(content).hexdigest(), content


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.split("%")[0]).is_loopback
