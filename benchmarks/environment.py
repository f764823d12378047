"""Where a measurement was made: recorded beside the figures, because they mean little without it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

PACKAGES = ("fpga_dynamo", "torch", "torchvision", "numpy", "onnxruntime", "openvino")
ROOT = Path(__file__).resolve().parents[1]


def environment(threads: int) -> dict[str, Any]:
    """CPU, versions, threads and commit, in types that JSON knows."""
    return {
        "cpu": cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "threads": threads,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "compiler": _output([os.environ.get("CXX", "g++"), "--version"]),
        "commit": _output(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "packages": {name: version for name in PACKAGES if (version := installed_version(name)) is not None},
    }


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor())


def installed_version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _output(command: list[str]) -> str:
    """First line of what a program prints; empty if it cannot be run."""
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout.splitlines() or [""])[0]
