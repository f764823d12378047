"""Scalar evolution: what `opt -passes=print<scalar-evolution>` says of values and trip counts, as linear forms.

A linear form is a sum of terms with integer coefficients: the constant (key ""), values that do not change in the loop
(`%n`), and for each loop that a value advances in, its counter (`#header`). What is no such sum is one opaque term,
whose key tells equal ones from different ones.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

_NAME = r'[%@](?:"[^"]*"|[\w.$\-]+)'
Linear = dict[str, int]
_MOST_DEEP = 200


@dataclass
class Evolution:
    """values: scalar evolution's words by value. trips: how often a loop's backedge is taken, by header, where known.

    most: an upper bound of that. symbolic: words for it, where it is known before the loop begins but is no constant.
    """

    values: dict[str, str] = field(default_factory=dict)
    trips: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    symbolic: dict[str, str] = field(default_factory=dict)

    def counts(self, header: str) -> bool:
        """Whether it is known, before a loop begins, how often it runs."""
        return header in self.trips or not self.symbolic.get(header, "***").startswith("***")


def parse(text: str, function: str) -> Evolution:
    """Reads what is printed of one function."""
    found = Evolution()
    sections = re.split(r"^(?:Classifying expressions for|Determining loop execution counts for): @", text, flags=re.M)
    for section in sections[1:]:
        name, _, rest = section.partition("\n")
        if name.strip().strip('"') == function:
            _read(rest, found)
    return found


def _read(text: str, found: Evolution) -> None:
    current = None
    for line in text.split("\n"):
        if match := re.match(rf"  ({_NAME}) = ", line):
            current = match[1]
        elif current and line.startswith("  -->  "):
            words = line[7:]
            found.values[current] = re.split(r" U: | S: |\t\t", words, maxsplit=1)[0].strip()
            current = None
        elif match := re.match(r"Loop %(\"[^\"]*\"|[^:]*): (.*)", line):
            header = match[1].strip('"')
            count = re.match(r"(constant max |symbolic max )?backedge-taken count is (?:i\d+ )?(.*)", match[2])
            if not count:
                continue
            words = count[2].strip()
            if words.isdigit() or (words[:1] == "-" and words[1:].isdigit()):
                (found.trips if not count[1] else found.most).setdefault(header, int(words))
            elif not count[1]:
                found.symbolic.setdefault(header, words)


def linear(words: str) -> Linear:
    """The linear form of a scalar evolution as it is printed."""
    try:
        reader = _Reader(words)
        form = reader.expression(0)
        return reader.whole({key: value for key, value in form.items() if value})
    except (_Strange, IndexError):
        return {"?" + words: 1}


def difference(a: Linear, b: Linear) -> Linear:
    """a - b, without what cancels."""
    result = dict(a)
    for key, value in b.items():
        result[key] = result.get(key, 0) - value
    return {key: value for key, value in result.items() if value}


def opaque(form: Linear) -> bool:
    """Whether a form has a term that is no constant, counter or plain value."""
    return any(key[:1] not in ("", "#", "%", "@") for key in form)


def _key(form: Linear) -> str:
    return "+".join(f"{value}*{key}" if key else str(value) for key, value in sorted(form.items()) if value)


class _Strange(Exception):
    pass


class _Reader:
    _OPERATOR = re.compile(r"\s*(\+|\*|/u|/s|umax|smax|umin_seq|umin|smin|urem)\s*")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        # By the key of a remainder: that of its quotient, the divisor, and what is divided.
        self._wrapped: dict[str, tuple[str, int, Linear]] = {}

    def whole(self, form: Linear) -> Linear:
        """A form with quotients and remainders put together, as rows and columns of a counter are: 32 * (n / 32) and
        n % 32 are n."""
        for key, (quotient, divisor, inner) in self._wrapped.items():
            count = form.get(key, 0)
            if count and form.get(quotient) == count * divisor:
                rest = {k: v for k, v in form.items() if k not in (key, quotient)}
                form = _sum(rest, {k: count * v for k, v in inner.items()})
        return {key: value for key, value in form.items() if value}

    def expression(self, depth: int) -> Linear:
        if depth > _MOST_DEEP:
            raise _Strange
        self._skip()
        c = self._text[self._at]
        if c == "{":
            return self._recurrence(depth)
        if c == "(":
            return self._bracket(depth)
        if match := re.compile(r"-?\d+").match(self._text, self._at):
            self._at = match.end()
            return {"": int(match[0])}
        if match := re.compile(_NAME).match(self._text, self._at):
            self._at = match.end()
            return {match[0]: 1}
        if match := re.compile(r"null|false|true|undef|poison").match(self._text, self._at):
            self._at = match.end()
            return {"": int(match[0] == "true")} if match[0] in ("null", "false", "true") else {"?" + match[0]: 1}
        raise _Strange

    def _skip(self) -> None:
        while self._text[self._at] == " ":
            self._at += 1

    def _flags(self) -> None:
        while self._text.startswith("<n", self._at):
            self._at = self._text.index(">", self._at) + 1

    def _recurrence(self, depth: int) -> Linear:
        self._at += 1
        parts = [self.expression(depth + 1)]
        self._skip()
        while self._text.startswith(",+,", self._at):
            self._at += 3
            parts.append(self.expression(depth + 1))
            self._skip()
        if self._text[self._at] != "}":
            raise _Strange
        self._at += 1
        self._flags()
        header = re.compile(r'<%("[^"]*"|[^>]*)>').match(self._text, self._at)
        if not header:
            raise _Strange
        self._at = header.end()
        self._flags()
        counter = "#" + header[1].strip('"')
        start, steps = parts[0], parts[1:]
        if len(steps) == 1 and set(steps[0]) <= {""}:
            return _sum(start, {counter: steps[0].get("", 0)})
        # A step that is no constant, or one that changes: opaque, but the same for the same words.
        key = f"?{counter}*" + ",".join(_key(step) for step in steps)
        return _sum(start, {key: 1})

    def _bracket(self, depth: int) -> Linear:
        self._at += 1
        cast = re.compile(r"(zext|sext|trunc|ptrtoint|inttoptr) (\w+) ").match(self._text, self._at)
        if cast:
            self._at = cast.end()
            inner = self.expression(depth + 1)
            to = re.compile(r"\s*to (\w+)\)").match(self._text, self._at)
            if not to:
                raise _Strange
            self._at = to.end()
            self._flags()
            return self._cast(cast[1], to[1], inner)
        total = self.expression(depth + 1)
        while True:
            self._skip()
            if self._text[self._at] == ")":
                self._at += 1
                self._flags()
                return total
            operator = self._OPERATOR.match(self._text, self._at)
            if not operator:
                raise _Strange
            self._at = operator.end()
            total = _apply(operator[1], total, self.expression(depth + 1))

    def _cast(self, kind: str, to: str, inner: Linear) -> Linear:
        bits = int(to[1:]) if to[1:].isdigit() else 64
        if kind == "trunc" and bits < 24 and set(inner) - {""}:
            # It wraps around within few iterations: the form is periodic.
            inner, low = _without_low(inner, 1 << bits)
            key = f"?mod{bits}:{_key(inner)}"
            self._wrapped[key] = f"?({_key(inner)}/u{1 << bits})", 1 << bits, inner
            return {key: 1, "": low}
        return inner


def _apply(operator: str, a: Linear, b: Linear) -> Linear:
    if operator == "+":
        return _sum(a, b)
    if operator == "*":
        for one, other in ((a, b), (b, a)):
            if set(one) <= {""}:
                return {key: value * one.get("", 0) for key, value in other.items()}
    if operator == "/u" and set(b) <= {""} and b.get("", 0) > 0:
        a, _ = _without_low(a, b[""])
    first, second = (_key(a), _key(b)) if operator in ("/u", "/s", "urem") else sorted((_key(a), _key(b)))
    return {f"?({first}{operator}{second})": 1}


def _without_low(form: Linear, whole: int) -> tuple[Linear, int]:
    """A form without the low part of its constant, which no carry crosses: what varies moves by multiples of a divisor
    of `whole` that is larger. 16 n + 3 modulo 256 is 16 n modulo 256, and 3."""
    step = whole
    for key, value in form.items():
        if key:
            step = math.gcd(step, value)
    low = form.get("", 0) % step
    return {**form, "": form.get("", 0) - low}, low


def _sum(a: Linear, b: Linear) -> Linear:
    result = dict(a)
    for key, value in b.items():
        result[key] = result.get(key, 0) + value
    return result
