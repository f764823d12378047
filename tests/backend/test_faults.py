"""What goes wrong on a card ends a run, not the process: eager answers, with a warning, or an error under `strict`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed

import fpga_dynamo
import xclbin_build
import xclbin_build.axlf
from fpga_dynamo import DeviceError, FpgaError, Pattern, VerificationError, XclbinError
from fpga_dynamo.lowering.patterns import registered
from fpga_dynamo.options import Options
from fpga_dynamo.runtime.calls import launch
from fpga_dynamo.runtime.calls.transfer import from_slot
from fpga_dynamo.runtime.cards import card
from tests.backend.backend_kit import counting, memory_used, mlp, on_card, run_python
from tests.backend.fault_ops import FAULTY, Fault, faulty, ill, lower, well

DATA = Path(__file__).parent / "data"
FAULTY_CARD, SWAPPED_CARD, SMALL_CARD = 1, 2, 3
"""Cards that no other test uses: these here break them and load other xclbins."""


@pytest.fixture
def on_faulty(faulty_xclbin: Path) -> Iterator[Any]:
    """Compiles for the card with the faulty core."""
    with registered(FAULTY):
        yield partial(on_card, xclbin=faulty_xclbin, device=FAULTY_CARD)


def answer(mode: Fault, x: torch.Tensor) -> torch.Tensor:
    return torch.relu(faulty(x * 1.0, int(mode)))


def model_of(mode: Fault) -> Any:
    return lambda x: answer(mode, x)


def test_the_core_itself_works(on_faulty: Any) -> None:
    compiled = on_faulty(model_of(Fault.NONE), strict=True, verify=True)
    with counting() as grown:
        torch.testing.assert_close(compiled(ill()), answer(Fault.NONE, ill()))
    assert grown["pl_launches"] == 1 and grown["ps_fallbacks"] == 0


SENTENCES = {
    Fault.CRASH: r"graph\d+\.0 on kernel sequencer of .*faulty.xclbin: .*(crash|segmentation|fault|address)",
    Fault.HANG: r"timeout.*allows more than 0.5 s",
    Fault.STATUS: "77",
    Fault.THROW: r"\(compute unit sequencer_[12]\) threw std::runtime_error: thirteen",
    Fault.ASSERT: r"failed the assertion `.*FAULT_ASSERT.*' at faulty.hpp:\d+",
    Fault.EXIT: r"called exit\(3\)",
    Fault.ABORT: r"called abort\(\)",
    Fault.DIVIDE: "crashed: integer division by zero",
}


@pytest.mark.parametrize("fault", SENTENCES, ids=str)
def test_a_run_that_fails_is_run_by_eager_with_a_warning(on_faulty: Any, fault: Fault) -> None:
    compiled = on_faulty(model_of(fault), timeout=0.5)
    torch.testing.assert_close(compiled(well()), answer(fault, well()))
    with (
        counting() as grown,
        pytest.warns(RuntimeWarning, match=f"(?is)ran in eager mode instead: .*{SENTENCES[fault]}"),
    ):
        began = time.perf_counter()
        torch.testing.assert_close(compiled(ill()), answer(fault, ill()))
        assert time.perf_counter() - began < 20, "a hung run is ended"
    assert grown["ps_fallbacks"] == 1 and grown["pl_launches"] == 0
    with counting() as grown, warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            torch.testing.assert_close(compiled(well()), answer(fault, well()))
    assert grown["pl_launches"] == 3 and grown["ps_fallbacks"] == 0, "the card goes on"


@pytest.mark.parametrize("fault", SENTENCES, ids=str)
def test_under_strict_a_failed_run_is_an_error(on_faulty: Any, fault: Fault) -> None:
    compiled = on_faulty(model_of(fault), timeout=0.5, strict=True)
    with pytest.raises(DeviceError, match=f"(?is){SENTENCES[fault]}"):
        compiled(ill())
    torch.testing.assert_close(compiled(well()), answer(fault, well()))


def test_a_failure_that_repeats_is_warned_of_once(on_faulty: Any) -> None:
    compiled = on_faulty(model_of(Fault.STATUS))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            torch.testing.assert_close(compiled(ill()), answer(Fault.STATUS, ill()))
    assert len([w for w in caught if issubclass(w.category, RuntimeWarning)]) == 1


def test_failures_leave_no_memory_behind(on_faulty: Any) -> None:
    def used_by(calls: int) -> int:
        torch._dynamo.reset()
        compiled = on_faulty(model_of(Fault.CRASH))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(calls):
                compiled(ill())
        return memory_used(FAULTY_CARD)

    assert used_by(1) == used_by(20)


def test_a_command_that_the_card_refuses_is_named(on_faulty: Any) -> None:
    compiled = on_faulty(model_of(Fault.BAD_RECORD))
    with pytest.warns(RuntimeWarning, match=r"command \d+ \(faulty\) has a negative mode"):
        torch.testing.assert_close(compiled(well()), answer(Fault.BAD_RECORD, well()))


def test_a_wrong_value_is_found_by_verify_and_named(on_faulty: Any) -> None:
    compiled = on_faulty(model_of(Fault.WRONG), verify=True)
    torch.testing.assert_close(compiled(well()), answer(Fault.WRONG, well()))
    with pytest.raises(VerificationError) as caught:
        compiled(ill())
    line = answer.__code__.co_firstlineno + 1
    assert f"faulty (backend_test.faulty.default at test_faults.py:{line} in answer)" in str(caught.value)
    assert "differs from eager mode" in str(caught.value) and "command" in str(caught.value)


def test_verify_finds_a_wrong_position_among_distinct_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "from_slot", lambda raw, slot: from_slot(raw, slot) + 1)
    with pytest.raises(VerificationError, match="3 of 3 elements differ"):
        on_card(lambda x: x.argmax(1), verify=True)(torch.eye(3, 9))


def test_verify_leaves_to_rounding_what_hangs_on_it() -> None:
    def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w).view(-1, 2).argmax(1)

    rows = torch.randn(500, 64)
    pairs = torch.stack([rows, torch.stack([row[torch.randperm(500)] for row in rows.t()], 1)], 2)
    x, w = torch.ones(1, 500), pairs.reshape(500, 128)  # equal sums of the same numbers in another order
    mine, compiled = on_card(model)(x, w), on_card(model, verify=True, strict=True)
    assert not torch.equal(mine, model(x, w)), "the card adds up in another order than eager"
    assert torch.equal(compiled(x, w), mine)


def test_without_verify_a_wrong_value_would_pass(on_faulty: Any) -> None:
    assert not torch.allclose(on_faulty(model_of(Fault.WRONG))(ill()), answer(Fault.WRONG, ill()))


@pytest.mark.parametrize(
    "fields, sentence",
    [
        ({"colour": 1}, "pattern 'careless'.*'faulty_command'.*no field 'colour'"),
        ({"count": (1, 2)}, "pattern 'careless'.*'count' of 'faulty_command' expects 1 value"),
        ({"count": "many"}, "pattern 'careless'.*'count' of 'faulty_command' expects int32_t, not 'many'"),
    ],
    ids=["unknown field", "too many values", "no number"],
)
def test_a_field_that_a_record_does_not_take_is_an_error_of_its_pattern(
    on_faulty: Any, fields: dict[str, Any], sentence: str
) -> None:
    def careless(match: Any, emitter: Any) -> Any:
        views = lower(match, emitter)
        emitter.commands[-1].fields.update(fields)
        return views

    pattern = Pattern("careless", FAULTY.anchors, FAULTY.match, FAULTY.check, careless, FAULTY.opcodes)
    with registered(pattern), pytest.raises(BackendCompilerFailed, match=f"(?s){sentence}") as caught:
        on_faulty(model_of(Fault.NONE))(well())
    assert isinstance(caught.value.inner_exception, FpgaError)


def test_a_missing_core_is_named_and_what_is_there_is_not() -> None:
    with registered(FAULTY):
        explained = fpga_dynamo.explain(model_of(Fault.NONE), well(), options={"partition": "greedy"})
    (node,) = (node for node in explained.graphs[0].nodes if "faulty" in node.op)
    assert node.place == "PS"
    assert "faulty" in node.how and "sequencer" in node.how and "move" not in node.how


# --- values that the card does not take -------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [10, -1, 1 << 20])
def test_an_index_out_of_range_is_eager_s_error(index: int) -> None:
    table = nn.Embedding(10, 16)
    compiled = on_card(table, strict=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(torch.tensor([0, 9])), table(torch.tensor([0, 9])))
        with pytest.raises(IndexError, match="index out of range"):
            table(torch.tensor([0, index]))
        with pytest.raises(IndexError, match="index out of range"):
            compiled(torch.tensor([0, index]))
        torch.testing.assert_close(compiled(torch.tensor([3, 4])), table(torch.tensor([3, 4])))


def both_ways(x: torch.Tensor) -> torch.Tensor:
    return torch.cat((x, x.flip(0)))


def test_integers_beyond_int32_get_the_right_answer() -> None:
    compiled = on_card(both_ways)
    small = torch.tensor([3, -(2**31), 2**31 - 1])
    with counting() as grown:
        assert torch.equal(compiled(small), both_ways(small))
    assert grown["pl_launches"] == 1 and grown["ps_fallbacks"] == 0, "or the test shows nothing"
    large = torch.tensor([2**40 + 1, -(2**33), 5])
    with counting() as grown, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(compiled(large), both_ways(large))
    assert grown["ps_fallbacks"] == 1


# --- memory -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def small_xclbin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recipe of the faulty core on a card whose bank holds 1 MiB."""
    directory = tmp_path_factory.mktemp("small")
    emu = (Path(xclbin_build.__file__).parent / "platforms" / "emu.toml").read_text(encoding="utf-8")
    head = emu.split("[[bank]]")[0].replace('name = "emu"', 'name = "small"')
    bank = '[[bank]]\ntag = "DDR[0]"\nkind = "ddr4"\nbase = 0x4000000000\nbytes = 1_048_576\n'
    (directory / "small.toml").write_text(head + bank, encoding="utf-8")
    return xclbin_build.build(
        recipe=DATA / "faulty.toml", platform=directory / "small.toml", output=directory / "small.xclbin"
    )


class Scale(nn.Module):
    """One row of x, 16 wide, times each of `rows` rows of weights."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * self.weight)


def test_a_full_bank_has_eager_answer(small_xclbin: Path) -> None:
    on_small = partial(on_card, xclbin=small_xclbin, device=SMALL_CARD)
    fits, model, x = Scale(3).eval(), Scale(1 << 15).eval(), torch.randn(1, 16)
    compiled, compiled_fits = on_small(model), on_small(fits)
    with torch.no_grad():
        torch.testing.assert_close(compiled_fits(x), fits(x))
        with pytest.warns(RuntimeWarning, match=r"ran in eager mode instead: .*(memory|bank).*DDR\[0\]"):
            torch.testing.assert_close(compiled(x), model(x))
        with counting() as grown:
            torch.testing.assert_close(compiled_fits(x), fits(x))
        assert grown["pl_launches"] == 1 and grown["ps_fallbacks"] == 0, "others go on"
        with pytest.raises(DeviceError, match=r"(?i)memory|bank"):
            on_small(model, strict=True)(x)
    assert fpga_dynamo.devices()[SMALL_CARD].memory_used <= 1 << 20


# --- xclbins ----------------------------------------------------------------------------------------------------------


def damaged(path: Path, directory: Path) -> dict[str, Path]:
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF
    files = {
        "truncated": content[: len(content) // 2],
        "only a header": content[:200],
        "corrupt": bytes(flipped),
        "foreign": b"\x7fELF" + bytes(4096),
        "empty": b"",
        "text": b"not an xclbin\n",
    }
    for name, data in files.items():
        (directory / f"{name}.xclbin").write_bytes(data)
    found = {name: directory / f"{name}.xclbin" for name in files}
    return {**found, "missing": directory / "missing.xclbin", "a directory": directory}


@pytest.mark.parametrize(
    "case", ["truncated", "only a header", "corrupt", "foreign", "empty", "text", "missing", "a directory"]
)
def test_a_bad_xclbin_is_one_clear_error(case: str, faulty_xclbin: Path, tmp_path: Path) -> None:
    path = damaged(faulty_xclbin, tmp_path)[case]
    with pytest.raises(BackendCompilerFailed) as caught:
        on_card(nn.Linear(4, 3), xclbin=path, device=FAULTY_CARD)(torch.randn(2, 4))
    error = caught.value.inner_exception
    assert isinstance(error, XclbinError)
    sentence = str(error)
    assert str(path) in sentence and "\n" not in sentence.strip() and 20 < len(sentence) < 400


def test_an_xclbin_of_a_newer_version_is_refused(faulty_xclbin: Path, tmp_path: Path) -> None:
    content = faulty_xclbin.read_bytes()
    axlf = xclbin_build.axlf.read(faulty_xclbin)
    assert axlf.manifest["manifest_version"] == 1
    newer = content.replace(b'"manifest_version": 1', b'"manifest_version": 9')
    newer = newer if newer != content else content.replace(b'"manifest_version":1', b'"manifest_version":9')
    assert newer != content
    (tmp_path / "newer.xclbin").write_bytes(newer)
    with pytest.raises(BackendCompilerFailed) as caught:
        on_card(nn.Linear(4, 3), xclbin=tmp_path / "newer.xclbin", device=FAULTY_CARD)(torch.randn(2, 4))
    assert isinstance(caught.value.inner_exception, XclbinError)


NO_COMPILER = """
import os, torch, fpga_dynamo
for compiler in ("", "no-such-compiler"):
    os.environ["CXX"] = compiler
    torch._dynamo.reset()
    try:
        torch.compile(torch.nn.Linear(4, 3), backend="fpga")(torch.randn(2, 4))
    except torch._dynamo.exc.BackendCompilerFailed as error:
        assert isinstance(error.inner_exception, fpga_dynamo.XclbinError), type(error.inner_exception)
        print(error.inner_exception)
"""


def test_a_missing_compiler_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    done = run_python(NO_COMPILER, PATH=str(tmp_path / "bin"), FPGA_DYNAMO_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    none, missing = done.stdout.strip().splitlines()
    assert "compiler" in none and "CXX" in none and "g++" in none
    assert "compiler" in missing and "CXX" in missing and "no-such-compiler" in missing


def test_another_xclbin_on_the_card_leaves_older_programs_on_it(faulty_xclbin: Path) -> None:
    model, x = mlp(16, 32, 8).eval(), torch.randn(4, 16)
    older = on_card(model, device=SWAPPED_CARD)
    with torch.no_grad(), registered(FAULTY):
        torch.testing.assert_close(older(x), model(x))
        newer = on_card(model_of(Fault.NONE), xclbin=faulty_xclbin, device=SWAPPED_CARD)
        with counting() as grown:
            torch.testing.assert_close(newer(well()), answer(Fault.NONE, well()))
        assert grown["pl_launches"] == 1
        with counting() as grown:
            for i in range(3):
                torch.testing.assert_close(older(x + i), model(x + i))
                torch.testing.assert_close(newer(well() + i), answer(Fault.NONE, well() + i))
        assert grown["ps_fallbacks"] == 0 and grown["pl_launches"] == 6
        model[0].weight.mul_(2)  # type: ignore[operator]
        torch.testing.assert_close(older(x), model(x))
        torch.testing.assert_close(newer(well()), answer(Fault.NONE, well()))
    assert fpga_dynamo.devices()[SWAPPED_CARD].xclbin == str(faulty_xclbin)


def test_after_a_refused_xclbin_the_card_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver for XRT closes kernels before another file is loaded, whether the card accepts that file or not."""

    class FakeCard:
        def __init__(self, driver: Any, index: int, path: Path, target: Any) -> None:
            if path.name == "refused":
                raise DeviceError("the card rejects the xclbin")
            self.path, self.target, self.holds_several, self.displaced = path, target, False, False

        def displace(self) -> None:
            self.displaced = True

    target = card.open_card(Options()).target
    monkeypatch.setattr(card, "_cards", {})
    monkeypatch.setattr(card, "read_target", lambda path: replace(target, uuid=path.name))
    monkeypatch.setattr(card, "Card", FakeCard)
    taken = card.open_card(Options(xclbin="taken"))
    assert card.open_card(Options(xclbin="taken")) is taken
    with pytest.raises(DeviceError, match="rejects the xclbin"):
        card.open_card(Options(xclbin="refused"))
    assert card.open_card(Options(xclbin="taken")) is not taken
