"""The arguments of a plain kernel as an operator of PyTorch sees them: inputs, outputs, sizes, and their dtypes."""

from __future__ import annotations

import keyword
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from fpga_dynamo.errors import OptionError
from xclbin_build import BuildError, cpp_source
from xclbin_build.cpp_lexer import lex
from xclbin_build.declaration import Declarator, aliases, statements
from xclbin_build.errors import did_you_mean
from xclbin_build.signature import Argument, parse_kernel

_INTEGERS = {
    ("bool",): torch.bool, ("_Bool",): torch.bool,
    ("char",): torch.int8, ("char", "unsigned"): torch.uint8,
    ("short",): torch.int16, ("short", "unsigned"): torch.uint16,
    (): torch.int32, ("unsigned",): torch.uint32,
    ("long",): torch.int64, ("long", "unsigned"): torch.uint64,
    ("long", "long"): torch.int64, ("long", "long", "unsigned"): torch.uint64,
}  # fmt: skip
_INTEGER_WORDS = {"bool", "_Bool", "signed", "unsigned", "char", "short", "int", "long"}
_NAMED = {
    "float": torch.float32, "double": torch.float64, "half": torch.float16, "_Float16": torch.float16,
    "__fp16": torch.float16, "__bf16": torch.bfloat16, "uint": torch.uint32, "ushort": torch.uint16,
    "size_t": torch.uint64, "ulong": torch.uint64,
    "int8_t": torch.int8, "int16_t": torch.int16, "int32_t": torch.int32, "int64_t": torch.int64,
    "uint8_t": torch.uint8, "uint16_t": torch.uint16, "uint32_t": torch.uint32, "uint64_t": torch.uint64,
}  # fmt: skip
_SIGNED = {"8": torch.int8, "16": torch.int16, "32": torch.int32, "64": torch.int64}
_UNSIGNED = {"1": torch.bool, "8": torch.uint8, "16": torch.uint16, "32": torch.uint32, "64": torch.uint64}
_COMPLEX = {"float": torch.complex64, "double": torch.complex128}
_FLOATS = (torch.float16, torch.float32, torch.float64, torch.bfloat16)

_TAKEN = ("self", "in", "out", "from", "return", "Tensor")
"""Names of C that a schema of PyTorch or Python's syntax has another use for."""

Role = Literal["input", "mutated", "output", "size", "value"]


@dataclass(frozen=True)
class Parameter:
    """An argument in C's order.

    role: a tensor that is read, read and written, or made; a number by a rule, or by the caller.
    dtype: of a tensor, None for elements that any dtype may stand for; of a number, None for bits (ap_fixed).
    """

    name: str
    role: Role
    type: str
    bytes: int
    dtype: torch.dtype | None

    @property
    def identifier(self) -> str:
        """The name in Python and in the operator's schema."""
        return f"{self.name}_" if keyword.iskeyword(self.name) or self.name in _TAKEN else self.name

    @property
    def is_tensor(self) -> bool:
        return self.role in ("input", "mutated", "output")

    @property
    def is_given(self) -> bool:
        """Whether callers give it."""
        return self.role in ("input", "mutated", "value")

    @property
    def is_float(self) -> bool:
        return self.dtype in _FLOATS

    @property
    def schema(self) -> str:
        """The parameter in the operator's schema."""
        if self.is_tensor:
            kind = "Tensor"
        elif self.dtype is torch.bool:
            kind = "bool"
        else:
            kind = "float" if self.is_float else "SymInt"
        return f"{kind} {self.identifier}"

    @property
    def declared(self) -> str:
        return f"{self.type}*" if self.is_tensor else self.type


def read_arguments(source: Path, top: str) -> list[Argument]:
    """The arguments of a kernel as its source declares them. Raises OptionError."""
    try:
        return parse_kernel(source, top)
    except BuildError as error:
        raise OptionError(str(error)) from error


def parameters(
    source: Path, top: str, arguments: Sequence[Argument], roles: Mapping[str, Collection[str]]
) -> list[Parameter]:
    """The arguments with their roles. roles: "inputs", "outputs", "mutates_args" and "sizes", and the names in each.

    Raises OptionError for a name that is no argument, and for an argument whose role is open or impossible.
    """
    names = [argument.name for argument in arguments]
    for what, given in roles.items():
        for name in given:
            if name not in names:
                raise OptionError(f"kernel '{top}': {what}= names '{name}'; {did_you_mean(name, names)}")
    types = _Types(source)
    return [Parameter(a.name, _role(top, a, roles), a.type, a.bytes, types.dtype(a.type)) for a in arguments]


def _role(top: str, argument: Argument, roles: Mapping[str, Collection[str]]) -> Role:
    where, name = f"kernel '{top}': argument '{argument.name}'", argument.name
    named = [what for what in roles if name in roles[what]]
    if len(named) > 1:
        raise OptionError(f"{where} is in {named[0]}= and in {named[1]}=; name it in one of them.")
    if argument.kind == "stream":
        raise OptionError(f"{where} is a stream to another kernel, which a call of one kernel cannot connect.")
    if argument.output:
        raise OptionError(f"{where} is a result in a register ({argument.type}&); have the kernel write to a pointer.")
    if argument.kind == "scalar":
        if named and named != ["sizes"]:
            raise OptionError(f"{where} is a number ({argument.type}), and {named[0]}= is for pointers.")
        return "size" if named else "value"
    if named == ["sizes"]:
        raise OptionError(f"{where} is a pointer ({argument.type}*), and sizes= is for numbers.")
    if argument.const and named not in ([], ["inputs"]):
        raise OptionError(f"{where} is a pointer to const, which the kernel cannot write; leave it out of {named[0]}=.")
    if argument.const or named == ["inputs"]:
        return "input"
    if not named:
        raise OptionError(
            f"{where} is a pointer that the kernel may write; name it in outputs={{...}}, in mutates_args=(...) if the "
            "kernel also reads it, or in inputs=(...) if the kernel only reads it."
        )
    return "output" if named == ["outputs"] else "mutated"


class _Types:
    """Types of elements, with the names that a source gives them."""

    def __init__(self, source: Path) -> None:
        self._aliases = aliases(list(statements(cpp_source.read(source).tokens)))

    def dtype(self, text: str) -> torch.dtype | None:
        """The dtype with the same elements as a C type; None for a type that PyTorch has no dtype for."""
        words = self._resolved(tuple(match[0] for _, match in lex(text)))
        if set(words) <= _INTEGER_WORDS:
            return _INTEGERS.get(tuple(sorted(word for word in words if word not in ("int", "signed"))))
        if len(words) == 1:
            return _NAMED.get(words[0])
        if len(words) == 4 and words[1] == "<":
            table = {"ap_int": _SIGNED, "ap_uint": _UNSIGNED, "complex": _COMPLEX}.get(words[0], {})
            return table.get(words[2])
        return None

    def _resolved(self, words: tuple[str, ...]) -> tuple[str, ...]:
        for _ in range(len(self._aliases) + 1):
            while "::" in words and "<" not in words[: words.index("::")]:
                words = words[words.index("::") + 1 :]
            known: Declarator | None = self._aliases.get(words[0]) if len(words) == 1 else None
            if known is None or known.stars:
                break
            words = known.base
        return words
