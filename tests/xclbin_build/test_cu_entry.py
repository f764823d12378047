"""User cores and plain kernels, built and called through their cu_entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.xclbin_build.cu_card import Card, Refused, aligned, encode
from xclbin_build import read

COUNT = 48


@pytest.fixture
def card(user_xclbin: Path) -> Card:
    return Card(read(user_xclbin))


class List:
    """A command list for kernel `engine`, with its regions."""

    def __init__(self, card: Card, *commands: np.ndarray, arena: int = 256, weights: int = 64) -> None:
        self.card = card
        self.commands = aligned(64 * max(1, len(commands)), np.uint32)
        for index, words in enumerate(commands):
            self.commands[64 * index : 64 * (index + 1)] = words
        self.arena, self.weights = aligned(arena), aligned(weights)
        self.arguments = {
            "commands": card.place(self.commands),
            "count": len(commands),
            "arena": card.place(self.arena),
            "weights": card.place(self.weights),
        }

    def start(
        self, slices: int | None = None, windows: dict[int, np.ndarray] | None = None, **changes: int
    ) -> list[int]:
        """`windows`: arrays of the host that stand in the arena's place from a float on."""
        shown = {self.arguments["arena"] + 4 * at: array for at, array in (windows or {}).items()}
        return self.card.start("engine", self.arguments | changes, slices, shown)

    @property
    def status(self) -> tuple[int, int]:
        words = self.arena[:2].view(np.uint32)
        return int(words[0]), int(words[1])


def accumulate(card: Card, **changes: object) -> np.ndarray:
    fields: dict[str, object] = {
        "a": 16, "b": 3, "output": 128, "count": COUNT, "factor": np.arange(20, dtype=np.float32) / 8, "shift": -2.5,
    }  # fmt: skip
    return encode(card.manifest, "accumulate", **(fields | changes))


def negate(card: Card, count: int = COUNT, **changes: object) -> np.ndarray:
    return encode(card.manifest, "negate", **({"input": 128, "output": 192, "count": count} | changes))


@pytest.mark.parametrize("slices", [None, 1, 3, 7])
def test_command_list_computes_what_its_commands_say(card: Card, slices: int | None) -> None:
    run = List(card, accumulate(card, slices=4), negate(card, slices=-3))
    random = np.random.default_rng(7)
    run.arena[16 : 16 + COUNT] = a = random.standard_normal(COUNT, np.float32)
    run.weights[3 : 3 + COUNT] = b = random.standard_normal(COUNT, np.float32)
    assert run.start(slices) == [4, 1]
    expected = a * (np.arange(COUNT) % 20 / 8) + b - 2.5
    np.testing.assert_allclose(run.arena[128 : 128 + COUNT], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(run.arena[192 : 192 + COUNT], -run.arena[128 : 128 + COUNT])
    assert run.status == (0, 0)
    assert np.isnan(run.arena[192 + COUNT :]).all()


def test_status_record_names_the_command_that_failed(card: Card) -> None:
    run = List(card, negate(card), negate(card, 3), negate(card, output=64))
    run.start()
    assert run.status == (card.manifest["enums"]["status"]["STATUS_INDEX_RANGE"], 1)
    assert np.isnan(run.arena[64:112]).all(), "a command after the failed one has run"


def test_empty_list_reports_success(card: Card) -> None:
    run = List(card)
    assert run.start() == []
    assert run.status == (0, 0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"output": 9999}, ["command 1 (accumulate)", "writes", "arena"]),
        ({"output": 0xFFFFFFFF}, ["command 1 (accumulate)", "writes", "arena"]),
        ({"b": 60}, ["command 1 (accumulate)", "reads", "weights"]),
        ({"count": 0}, ["command 1 (accumulate)", "no elements"]),
        ({"opcode": 1}, ["command 1 (opcode 1)", "no core of kernel engine"]),
        ({"opcode": -7}, ["command 1 (opcode -7)", "no core of kernel engine"]),
    ],
)
def test_bad_command_is_refused_before_anything_runs(card: Card, changes: dict[str, int], words: list[str]) -> None:
    run = List(card, negate(card, input=16, output=64), accumulate(card, **changes))
    with pytest.raises(Refused) as refused:
        run.start()
    assert all(word in str(refused.value) for word in words), refused.value
    assert np.isnan(run.arena).all(), "something has run"


def test_operands_in_windows_are_read_and_written_in_the_host_s_memory(card: Card) -> None:
    run = List(card, negate(card, input=16, output=128), negate(card, output=64))
    source, result = aligned(COUNT), aligned(COUNT)
    source[:] = np.arange(COUNT)
    run.start(windows={16: source, 128: result})
    np.testing.assert_array_equal(result, -source)
    np.testing.assert_array_equal(run.arena[64 : 64 + COUNT], source)
    assert np.isnan(run.arena[16:64]).all() and np.isnan(run.arena[64 + COUNT :]).all(), "the arena was touched"


@pytest.mark.parametrize(
    ("core", "floats"),
    [("accumulate", COUNT), ("negate", COUNT - 16)],
    ids=["a core that does not follow", "an operand that goes on behind a window"],
)
def test_what_cannot_follow_a_window_is_refused_before_anything_runs(card: Card, core: str, floats: int) -> None:
    cores: dict[str, Any] = {"accumulate": accumulate, "negate": negate}
    command = cores[core](card)
    run, result = List(card, negate(card, input=16, output=64), command), aligned(floats)
    with pytest.raises(Refused, match=rf"command 1 \({core}\) reaches .* lies elsewhere") as refused:
        run.start(windows={128: result})
    assert refused.value.for_a_window
    assert np.isnan(run.arena).all() and np.isnan(result).all(), "something has run"


def test_count_beyond_the_commands_buffer_is_refused(card: Card) -> None:
    run = List(card, negate(card))
    with pytest.raises(Refused, match="count is 2 but the commands buffer holds only 1"):
        run.start(count=2)


@pytest.mark.parametrize("name", ["commands", "arena", "weights"])
def test_pointer_errors_name_the_argument(card: Card, name: str) -> None:
    run = List(card, negate(card))
    with pytest.raises(Refused, match=f"argument {name}: address 0xdead0000 lies in no buffer"):
        run.start(**{name: 0xDEAD0000})  # type: ignore[arg-type]
    with pytest.raises(Refused, match=f"argument {name}: .* is not a multiple of 64"):
        run.start(**{name: run.arguments[name] + 4})  # type: ignore[arg-type]


def test_arena_too_small_for_the_status_record_is_refused(card: Card) -> None:
    with pytest.raises(Refused, match="too few for the status record"):
        List(card, arena=8).start()


def test_plain_kernel_gets_its_arguments(card: Card) -> None:
    a, b, out = aligned(40), aligned(40), aligned(48)
    a[:], b[:] = np.arange(40), np.arange(40) * 10
    arguments = {
        "a": card.place(a) + 4, "b": card.place(b), "out": card.place(out), "n": 39, "scale": 0.5, "offset": 5,
        "shift": 0.25, "step": 3,
    }  # fmt: skip
    assert card.start("vadd", arguments) == [1]
    expected = np.full(48, np.nan, np.float32)
    expected[5:44:3] = a[1:40:3] + 0.5 * b[:39:3] + 0.25
    np.testing.assert_array_equal(out, expected)


def test_plain_kernel_refuses_an_address_without_buffer(card: Card) -> None:
    arguments = dict.fromkeys(("a", "b", "n", "scale", "offset", "shift", "step"), 0)
    a = card.place(aligned(4))
    with pytest.raises(Refused, match="argument out: address 0xbad"):
        card.start("vadd", arguments | {"a": a, "b": a, "out": 0xBAD})
