"""What lowering knows of a card, without a device: from an xclbin, or from the recipe that one would be built from."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import xclbin_build
import xclbin_build.axlf
from fpga_dynamo.errors import OptionError, XclbinError
from fpga_dynamo.ir.target import Target
from xclbin_build.build import check_target, load_design
from xclbin_build.manifest import EMULATED, describe
from xclbin_build.toolchain import isa as isas
from xclbin_build.trusted_path import UntrustedPathError, check_named, printable

_read: dict[tuple[str, float], Target] = {}
_lock = threading.Lock()


def target_of(
    xclbin: str | Path | None = None,
    *,
    recipe: str | Path | None = None,
    platform: str | Path | None = None,
    build: str = "emu",
) -> Target:
    """The card as lowering sees it; no device is opened, and nothing is built.

    xclbin: the file whose manifest says all of it. Without one, it is what a recipe would be built as: `recipe` and
    `platform` as in the options of ``torch.compile``, `build` the target of ``xclbin-build`` (`emu`, `hw`, ...).
    Lanes and windows of an emulator are known of an opened one alone: the target has none.

    Raises OptionError for an xclbin together with a recipe or platform, and XclbinError for a file that cannot be read,
    and for a recipe, platform or `build` that is unknown.
    """
    if xclbin is not None:
        if recipe is not None or platform is not None:
            raise OptionError(f"xclbin {printable(Path(xclbin))} has its recipe and platform: give the file or these")
        return read_target(Path(xclbin))
    try:
        check_target(build)
        design = load_design(recipe, None, platform)
        if build not in EMULATED:
            return Target.from_manifest("", describe(design, build, ""))
        isa, plan = isas.chosen()
        return Target.from_manifest("", describe(design, build, isa, plan, isas.multiplies(isa)))
    except xclbin_build.BuildError as error:
        raise XclbinError(str(error)) from error


def read_target(path: Path) -> Target:
    """The target that an xclbin's manifest describes; a file is read once.

    Raises XclbinError for a file that cannot be read or is not to be trusted.
    """
    with _lock:
        try:
            key = (os.path.realpath(path), path.stat().st_mtime)
            if key not in _read:
                check_named(path, "xclbin")
                axlf = xclbin_build.axlf.read(path)
                _read[key] = Target.from_manifest(str(axlf.uuid), axlf.manifest)
        except UntrustedPathError as error:
            raise XclbinError(str(error)) from error
        except OSError as error:
            raise XclbinError(f"xclbin {printable(path)} cannot be read: {error.strerror or error}") from error
        except xclbin_build.XclbinError as error:
            raise XclbinError(str(error)) from error
        return _read[key]
