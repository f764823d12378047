"""The options of ``torch.compile(model, backend="fpga", options={...})``, typed; an unknown key is an error."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from fpga_dynamo.device_address import is_address, parse
from fpga_dynamo.errors import OptionError


@dataclass(frozen=True)
class Options:
    """Options of the backend.

    xclbin: path of the ``torch.xclbin`` to run on; None builds (once per user) the recipe for software emulation.
    platform: a board, by name or path of a .toml: without an xclbin, the emulator runs the board's own recipe with the
        board's cost model and partition. None is the emulator's own platform.
    recipe: name or path of the recipe that is built when no xclbin is given. None is the platform's own for the element
        type of the graph: an engine of int8 for a quantized graph, of bfloat16 or of float32.
    driver: which driver serves the card: ``emulated`` is the emulator, ``xrt`` AMD's XRT, ``pyxrt`` the same by AMD's
        Python module. None is $FPGA_DYNAMO_DRIVER, else ``xrt`` for an xclbin that was built for a card.
    device: index of the card, or the address of one at the other end of a network, ``tcp://host:port/0``, which
        ``fpga-dynamo card-server`` serves there; with ``tls://`` the connection is encrypted.
    policy: scheduling policy, by name (``fpga_dynamo.runtime.scheduling.policies``).
    partition: ``cost`` offloads what pays for its launch and transfers, ``greedy`` whatever a core can run.
    granularity: what a task is that the scheduler gives to a unit: ``launch``, all that can run on the card at once;
        ``layer``, what a module computes; ``op``, an operator with what is fused to it. Of the last two, whatever a
        core can run is a task that the policy may give to a compute unit or to a PS thread, where eager runs it.
    strict: raise :class:`NotLoweredError` when any node that computes would run on the PS.
    verify: shadow every partition by eager and raise :class:`VerificationError` at the first node that diverges.
    weight_check: how a change of a parameter's content is noticed on the next call: ``version`` compares storage
        and version counter, ``sampled`` also a few elements of each parameter (so that writes through ``.data``
        are seen), ``full`` every byte.
    timeout: seconds that one launch may take before the run is ended.
    dump_dir: directory that receives the graph, the partition and the commands of every compiled graph.
    disable: names of patterns that are not to be used.
    winograd: let Winograd's method take the 3x3 convolutions that it is faster for; it rounds a few times as coarsely.
        2 or 4 have it take all that it can, in tiles of that side.
    bands: let chains of convolutions whose images outgrow a lane's cache run in bands of rows, a stream for each lane.
    cache: keep compiled programs on disk, and use those that are there (``fpga_dynamo.cache``).
    """

    xclbin: str | None = None
    platform: str | None = None
    recipe: str | None = None
    driver: str | None = None
    device: int | str = 0
    policy: str = "adaptive"
    partition: str = "cost"
    granularity: str = "launch"
    strict: bool = False
    verify: bool = False
    weight_check: str = "sampled"
    timeout: float = 60.0
    dump_dir: str | None = None
    disable: tuple[str, ...] = ()
    winograd: bool | int = True
    bands: bool = True
    cache: bool = True

    _CHOICES: ClassVar[dict[str, tuple[str, ...]]] = {
        "partition": ("cost", "greedy"),
        "granularity": ("launch", "layer", "op"),
        "weight_check": ("version", "sampled", "full"),
        "driver": ("emulated", "xrt", "pyxrt"),
    }

    @classmethod
    def refuse_mode(cls, mode: str | None) -> None:
        """Raises :class:`OptionError` for a mode of torch.compile that asks for measurements on the card.

        ``"reduce-overhead"`` is what happens anyway: a call goes from its guards to the launch without Python between.
        """
        if mode not in (None, "default", "reduce-overhead"):
            names = ", ".join(sorted(field.name for field in fields(cls)))
            raise OptionError(
                f"backend 'fpga' does not support mode={mode!r}: leave it out, or choose by options={{...}} ({names}); "
                "torch.compile accepts one of mode and options"
            )

    @classmethod
    def parse(cls, given: Mapping[str, Any] | None, policies: Collection[str] | None = None) -> Options:
        """Checks names and types. policies: the names that `policy` may be, which who uses it knows; None: any.

        Raises :class:`OptionError` for an unknown key (with the nearest known one) or a value of the wrong type.
        """
        if given is not None and not isinstance(given, Mapping):
            raise OptionError(f"options must be a dictionary such as {{'strict': True}}, not {given!r}")
        known = {field.name: field for field in fields(cls)}
        values: dict[str, Any] = {}
        for key, value in (given or {}).items():
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=1)
                hint = f"; did you mean '{near[0]}'?" if near else ""
                raise OptionError(f"unknown option '{key}'{hint} (options: {', '.join(sorted(known))})")
            values[key] = cls._checked(key, value, known[key].default)
        policy = values.get("policy", cls.policy)
        if policies is not None and policy.lower() not in policies:
            raise OptionError(f"option 'policy' must be one of {', '.join(policies)}, not {policy!r}")
        if values.get("xclbin") and values.get("platform"):
            raise OptionError("option 'platform' has no effect beside 'xclbin', which was built for one; leave it out")
        if isinstance(values.get("device"), str) and values.get("driver"):
            raise OptionError("option 'driver' has no effect with a card server, which has its own; leave it out")
        return cls(**values)

    @classmethod
    def _checked(cls, key: str, value: Any, default: Any) -> Any:
        if value is None and default is None:
            return None
        choices = cls._CHOICES.get(key)
        if choices is not None and value not in choices:
            raise OptionError(f"option '{key}' must be one of {', '.join(choices)}, not {value!r}")
        if key in ("xclbin", "dump_dir", "recipe", "platform"):
            if not isinstance(value, (str, Path)) or not str(value):
                raise OptionError(f"option '{key}' must be a path, not {value!r}")
            return str(value)
        if key == "disable":
            names = value if isinstance(value, (list, tuple, set, frozenset)) else [None]
            if not all(isinstance(name, str) for name in names):
                raise OptionError(f"option 'disable' must be a list of pattern names, not {value!r}")
            return tuple(names)
        if key == "timeout":
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise OptionError(f"option 'timeout' must be a positive number of seconds, not {value!r}")
            return float(value)
        if choices is not None:
            return value
        if key == "winograd" and type(value) is int:
            if value not in (2, 4):
                raise OptionError(
                    f"option 'winograd' must be True, False, 2 or 4 (the side of its tiles), not {value!r}"
                )
            return value
        if key == "device" and isinstance(value, str):
            if not is_address(value):
                raise OptionError(
                    "option 'device' must be the index of a card or an address such as tcp://host:port/0, "
                    f"not {value!r}"
                )
            parse(value)
            return value
        expected = type(default)
        if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
            raise OptionError(f"option '{key}' must be a value of type {expected.__name__}, not {value!r}")
        if key == "device" and not 0 <= value < 1 << 31:
            raise OptionError(f"option 'device' must be the index of a card, not {value}")
        return value
