"""Declarations of functions, parameters and types, read from the tokens of a C++ source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from .cpp_lexer import is_word

_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")
_ATTRIBUTES = ("__attribute__", "__attribute", "alignas", "__declspec")
_QUALIFIERS = ("const", "volatile", "restrict", "__restrict__", "__restrict", "register", "constexpr", "typename")
_TYPE_WORDS = {
    "void", "bool", "_Bool", "char", "short", "int", "long", "signed", "unsigned", "float", "double", "struct", "class",
    "union", "enum", "auto", "wchar_t", "char8_t", "char16_t", "char32_t", "__int128",
}  # fmt: skip

KEYWORDS = _TYPE_WORDS | set(_QUALIFIERS[:2]) | {
    "alignas", "alignof", "and", "and_eq", "asm", "bitand", "bitor", "break", "case", "catch", "compl",
    "const_cast", "constexpr", "continue", "decltype", "default", "delete", "do", "dynamic_cast", "else",
    "explicit", "export", "extern", "false", "for", "friend", "goto", "if", "inline", "mutable", "namespace",
    "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected", "public",
    "register", "reinterpret_cast", "return", "sizeof", "static", "static_assert", "static_cast", "switch",
    "template", "this", "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "using",
    "virtual", "volatile", "while", "xor", "xor_eq",
}  # fmt: skip
"""Words that nothing can be called in C++17."""

Item = str | tuple[str, ...]
"""A token, or all tokens of a pair of brackets with what is between them; brackets of templates are such pairs, too."""


@dataclass(frozen=True)
class Statement:
    """Tokens of a declaration at file scope, without what is in its braces; `body`: it ended with a function's body."""

    tokens: tuple[str, ...]
    body: bool
    c_linkage: bool


@dataclass(frozen=True)
class Prototype:
    """A function: the words of its result's type, and the tokens of each parameter."""

    result: tuple[str, ...]
    parameters: tuple[tuple[str, ...], ...]
    defined: bool
    c_linkage: bool


@dataclass(frozen=True)
class Declarator:
    """What a parameter or an alias declares: `stars` pointers to `base`, or an array of `extents` dimensions of it.

    base: tokens of the type without qualifiers; const: whether it is constant. name: "" without one. With both
    pointers and extents it is an array of pointers; a pointer to an array counts as an array of one dimension more, as
    which a parameter is the same.
    """

    base: tuple[str, ...]
    name: str = ""
    stars: int = 0
    extents: int = 0
    const: bool = False
    reference: bool = False
    function: bool = False

    @property
    def is_pointer(self) -> bool:
        """Whether, as a parameter, it is the address of data."""
        return self.stars + bool(self.extents) == 1 and not self.reference and not self.function

    @property
    def is_value(self) -> bool:
        return not (self.stars or self.extents or self.reference or self.function)

    def of(self, alias: Declarator) -> Declarator:
        """This, where `base` is an alias of something that has pointers or dimensions, too."""
        within = alias.stars or alias.extents
        if self.stars == 1 and not self.extents and alias.extents and not alias.stars:
            stars, extents = 0, alias.extents + 1
        else:
            stars, extents = self.stars + alias.stars, self.extents + alias.extents
        return replace(
            self, base=alias.base, stars=stars, extents=extents, const=alias.const or (self.const and not within),
            reference=self.reference or alias.reference, function=self.function or alias.function,
        )  # fmt: skip


def statements(tokens: Sequence[str]) -> Iterator[Statement]:
    """The declarations at file scope and in blocks of `extern "C"`; what lies in namespaces is left out."""
    current: list[str] = []
    linkage: list[bool] = []
    i = 0
    while i < len(tokens):
        token = tokens[i]
        end = _behind(tokens, i) if token in _OPENING else i + 1
        if token == "{" and current[-2:-1] == ["extern"] and current[-1].startswith('"'):
            linkage.append(current[-1] == '"C"')
            current, end = [], i + 1
        elif token == "{" and "namespace" in current[:2]:
            current = []
        elif token == "{" and _has_body(current):
            yield Statement(tuple(current), True, any(linkage[-1:]))
            current = []
        elif token == "{":
            current += ["{", "}"]
        elif token == "}":
            del linkage[-1:]
            current = []
        elif token == ";":
            if current:
                yield Statement(tuple(current), False, any(linkage[-1:]))
            current = []
        else:
            current += tokens[i:end]
        i = end


def function(statement: Statement, name: str) -> Prototype | None:
    """The function `name`, if a statement declares or defines it."""
    tokens = without_attributes(statement.tokens)
    for i in range(1, len(tokens) - 1):
        if tokens[i] == name and tokens[i + 1] == "(" and tokens[i - 1] != "::" and "=" not in tokens[:i]:
            break
    else:
        return None
    head = tokens[:i]
    linkage = next((head[j + 1] for j in range(i - 1) if head[j] == "extern" and head[j + 1].startswith('"')), None)
    result = tuple(word for word in head if word not in ("extern", "inline", linkage))
    inner = tokens[i + 2 : _behind(tokens, i + 1) - 1]
    parameters = split(inner) if inner not in ((), ("void",)) else []
    return Prototype(result, tuple(parameters), statement.body, linkage == '"C"' if linkage else statement.c_linkage)


def split(tokens: Sequence[str]) -> list[tuple[str, ...]]:
    """Parameters between commas, but for commas in brackets of any kind."""
    parts: list[list[str]] = [[]]
    for item in _items(tokens):
        if item == ",":
            parts.append([])
        else:
            parts[-1] += [item] if isinstance(item, str) else item
    return [tuple(part) for part in parts]


def declarator(tokens: Sequence[str]) -> Declarator:
    """What a parameter or an alias declares. A default argument is left out."""
    items = _items(without_attributes(tokens))
    if "=" in items:
        items = items[: items.index("=")]
    begin = next((i for i, item in enumerate(items) if item in ("*", "&") or item[0] in ("(", "[")), len(items))
    base, rest = items[:begin], items[begin:]
    const = "const" in base
    base = [item for item in base if item not in _QUALIFIERS]
    inside = next((i for i, item in enumerate(rest) if item[0] == "("), None)
    inner = [] if inside is None else _items(rest[inside][1:-1])
    elaborated = base[:1] in (["struct"], ["class"], ["union"], ["enum"])
    ends_in_name = len(base) > 1 + elaborated and base[-2] != "::" and _is_name(base[-1])
    nested = inner[:1] in (["*"], ["&"]) or (len(inner) == 1 and not ends_in_name)  # int (*n)[4], int (n)
    name = _name(inner if nested else rest)
    if not name and ends_in_name and not {"*", "&"} & set(rest):
        name = str(base.pop())
    stars, extents = rest.count("*"), sum(item[0] == "[" for item in rest)
    call = sum(item[0] == "(" for item in rest) > nested
    if nested:
        own_stars, own_extents = inner.count("*"), sum(item[0] == "[" for item in inner)
        if own_stars == 1 and extents and not own_extents:
            extents += 1
        else:
            stars, extents = stars + own_stars, extents + own_extents
    reference = "&" in rest or (nested and "&" in inner)
    flat = tuple(token for item in base for token in ([item] if isinstance(item, str) else item))
    return Declarator(flat, name, stars, extents, const, reference, call)


def aliases(found: Sequence[Statement]) -> dict[str, Declarator]:
    """The types that `typedef` and `using` give a name."""
    known: dict[str, Declarator] = {}
    for statement in found:
        tokens = without_attributes(statement.tokens)
        if tokens[:1] == ("typedef",):
            what = declarator(tokens[1:])
            known[what.name] = replace(what, name="")
        elif tokens[:1] == ("using",) and tokens[2:3] == ("=",):
            known[tokens[1]] = declarator(tokens[3:])
    return known


def enumerations(found: Sequence[Statement]) -> dict[str, tuple[str, ...]]:
    """For each enumeration the tokens of the type that it lies in; none if it leaves that open."""
    known: dict[str, tuple[str, ...]] = {}
    for statement in found:
        tokens = without_attributes(statement.tokens)
        alias = tokens[:1] == ("typedef",)
        tokens = tokens[alias:]
        if tokens[:1] != ("enum",) or "{" not in tokens:
            continue
        head = [word for word in tokens[1 : tokens.index("{")] if word not in ("class", "struct")]
        type_ = tuple(head[head.index(":") + 1 :]) if ":" in head else ()
        for name in (*head[:1], *([tokens[-1]] if alias else [])):
            known[name] = type_
    return known


def without_attributes(tokens: Sequence[str]) -> tuple[str, ...]:
    """The tokens without `__attribute__((…))`, `alignas(…)` and `[[…]]`."""
    kept: list[str] = []
    i = 0
    while i < len(tokens):
        if tokens[i] in _ATTRIBUTES and tokens[i + 1 : i + 2] == ("(",):
            i = _behind(tokens, i + 1)
        elif tuple(tokens[i : i + 2]) == ("[", "["):
            i = _behind(tokens, i)
        else:
            kept.append(tokens[i])
            i += 1
    return tuple(kept)


def _has_body(tokens: Sequence[str]) -> bool:
    """Whether braces behind these tokens are a function's body: there are parameters, and nothing is initialised."""
    items = _items(without_attributes(tokens))
    return "=" not in items and any(_is_name(a) and b[0] == "(" for a, b in pairwise(items))


def _items(tokens: Sequence[str]) -> list[Item]:
    items: list[Item] = []
    default = False  # in a default argument, where a < may be a comparison
    i = 0
    while i < len(tokens):
        end = _behind(tokens, i) if tokens[i] in _OPENING else _template_end(tokens, i, default)
        items.append(tuple(tokens[i:end]) if end else tokens[i])
        default = tokens[i] == "=" or (default and tokens[i] != ",")
        i = end or i + 1
    return items


def _behind(tokens: Sequence[str], begin: int) -> int:
    """Position behind the bracket that closes the one at `begin`."""
    depth = 0
    for i in range(begin, len(tokens)):
        depth += (tokens[i] in _OPENING) - (tokens[i] in _CLOSING)
        if not depth:
            return i + 1
    return len(tokens)


def _template_end(tokens: Sequence[str], begin: int, in_expression: bool) -> int:
    """Position behind the `>` that closes a template's `<` at `begin`; 0 if there is no such bracket.

    In an expression it is one if what is behind it cannot follow a comparison.
    """
    depth, i = 0, begin
    while i < len(tokens) and tokens[i] != "=":
        depth += (tokens[i] == "<") - (tokens[i] == ">")
        i = _behind(tokens, i) if tokens[i] in _OPENING else i + 1
        if not depth:
            is_template = not in_expression or tokens[i : i + 1] in (("{",), ("::",), ("(",))
            return i if tokens[begin] == "<" and is_template else 0
    return 0


def _is_name(item: Item) -> bool:
    return isinstance(item, str) and is_word(item) and item not in _TYPE_WORDS and item not in _QUALIFIERS


def _name(items: Sequence[Item]) -> str:
    return next((str(item) for item in items if _is_name(item)), "")
