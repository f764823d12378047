"""`fpga-dynamo serve`."""

from __future__ import annotations

import argparse
import socket
from pathlib import Path
from typing import Any

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.tools.extras import extra
from xclbin_build.arguments import whole
from xclbin_build.trusted_path import printable

DONE = 0
_MOST_PORT = 65535
_MEBIBYTE = 1 << 20


def add_command(commands: Any) -> None:
    """Adds `serve` to the commands of `fpga-dynamo`."""
    serve = commands.add_parser("serve", help="answer requests for exported models over HTTP and gRPC (KServe v2)")
    serve.add_argument(
        "directory", nargs="+", type=Path, metavar="DIR", help="an exported model; the directory's name is the model's"
    )
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    serve.add_argument("--port", type=whole(0, _MOST_PORT), default=8000, metavar="P", help="0: any free one (8000)")
    serve.add_argument("--grpc-port", type=whole(0, _MOST_PORT), metavar="P", help="0: any free one (no gRPC)")
    serve.add_argument("--replicas", type=whole(), default=1, metavar="N", help="processes that run the models (1)")
    serve.add_argument(
        "--ray", metavar="ADDRESS", help="spread the replicas over the hosts of this Ray cluster; auto: of this host's"
    )
    serve.add_argument(
        "--devices", type=whole(0), nargs="+", default=[0], metavar="I", help="devices of the replicas, in turn (0)"
    )
    serve.add_argument(
        "--max-batch",
        type=whole(),
        default=1,
        metavar="N",
        help="join requests to at most N rows, for models whose first dimension is a dynamic batch (1: never)",
    )
    serve.add_argument("--max-body", type=whole(), default=64, metavar="MIB", help="largest body in MiB (64)")
    serve.add_argument("--max-waiting", type=whole(), default=256, metavar="N", help="requests in the queue (256)")
    serve.add_argument(
        "--timeout", type=whole(), default=60, metavar="S", help="seconds of a launch, and of draining (60)"
    )
    serve.set_defaults(action=_serve)


def _serve(arguments: argparse.Namespace) -> int:
    directories = {}
    for directory in arguments.directory:
        name = directory.resolve().name
        if name in directories:
            raise FpgaError(f"two directories are called '{name}'; rename one, as the name is that of the model")
        if not (directory / "model.json").is_file():
            raise FpgaError(f"{printable(directory)} is no exported model: there is no model.json in it")
        directories[name] = str(directory)
    with extra("serve", "serve"):
        from fpga_dynamo.serving.metrics import Metrics
        from fpga_dynamo.serving.pool import Pool
        from fpga_dynamo.serving.replica import LocalReplica
        from fpga_dynamo.serving.server import serve
    if arguments.grpc_port is not None:
        with extra("--grpc-port", "grpc"):
            import fpga_dynamo.serving.grpc_server  # noqa: F401  # before a replica starts
    start_replica = LocalReplica if arguments.ray is None else _cluster(arguments.ray).start
    try:
        family = socket.getaddrinfo(arguments.host, arguments.port)[0][0]
        listener = socket.create_server((arguments.host, arguments.port), family=family)
    except (OSError, UnicodeError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise FpgaError(f"--host {arguments.host[:60]!a} --port {arguments.port}: {reason}; give another") from error
    metrics = Metrics()
    pool = Pool(
        directories,
        replicas=arguments.replicas,
        devices=arguments.devices,
        most_rows=arguments.max_batch,
        most_waiting=arguments.max_waiting,
        timeout=arguments.timeout,
        metrics=metrics,
        start_replica=start_replica,
    )
    host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
    address = f"http://{host}:{listener.getsockname()[1]}"

    def ready(grpc_port: int | None) -> None:
        names = ", ".join(directories)
        grpc = "" if grpc_port is None else f" and grpc://{host}:{grpc_port}"
        print(f"ready on {address}{grpc}: {names}; {arguments.replicas} replica(s)", flush=True)

    with listener:
        serve(
            pool,
            metrics,
            listener,
            grpc_address=None if arguments.grpc_port is None else f"{host}:{arguments.grpc_port}",
            most_bytes=arguments.max_body * _MEBIBYTE,
            drain=arguments.timeout,
            on_ready=ready,
        )
    return DONE


def _cluster(address: str) -> Any:
    with extra("--ray", "ray"):
        from fpga_dynamo.serving.ray_replica import RayCluster
    return RayCluster(address)
