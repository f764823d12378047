"""What every test relies on: programs lowered today (the tests of the disk cache turn it on for themselves), internal
errors of the compiler that are raised instead of a fallback to eager mode, and a Ctrl-C that raises, which a shell
takes from what it starts in the background."""

import argparse
import logging
import os
import re
import signal
from collections import Counter
from pathlib import Path

import pytest
import torch  # noqa: F401 - its logging keeps the standard error that it finds, so it is imported before tests replace that

from tests.marks import EXTENDED


def _without(hdlr: logging.Handler) -> None:
    """torch prints each graph for its trace once that has a handler, and pytest gives every logger one: 6 % of the time
    of tests that compile."""


logging.getLogger("torch.__trace").addHandler = _without  # type: ignore[method-assign]
os.environ["FPGA_DYNAMO_PROGRAM_CACHE"] = "0"
os.environ["FPGA_DYNAMO_INTERNAL_ERRORS"] = "raise"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

LONGEST = (
    "hls_kernels/test_benches.py",
    "test_docs.py",
    "test_fuzz.py",
    "driver/test_conformance.py",
    "driver/test_xrt_faults.py",
    "driver/test_driver_sanitizer.py",
    "driver/test_xrt_models.py",
)
"""Files that take minutes. `make test` gives each process a file at a time: these first, small ones fill the end."""


EVERY = {
    "backend/test_counting_card.py": 3,
    "backend/test_data_dependent_sizes.py": 4,
    "backend/test_dynamic_shapes.py": 3,
    "backend/test_frames.py": 3,
    "backend/test_infinite_weights.py": 3,
    "backend/test_internal_errors.py": 3,
    "backend/test_plain_kernels.py": 3,
    "backend/test_rare_programs.py": 3,
    "backend/test_tensors.py": 3,
    "backend/test_training.py": 3,
    "backend/test_verification.py": 3,
    "backend/test_weight_changes.py": 3,
    "card_server/test_forged_frames.py": 3,
    "compile_cache/test_engine_programs.py": 3,
    "driver/test_driver_faults.py": 3,
    "driver/test_driver_process.py": 3,
    "emulate/test_emulate.py": 3,
    "hls_kernels/test_benches.py": 6,
    "hls_kernels/test_engine.py": 3,
    "hls_kernels/test_engine_vector.py": 3,
    "hls_kernels/test_headers.py": 3,
    "hls_kernels/test_instruction_sets.py": 3,
    "hls_kernels/test_sim.py": 3,
    "lowering/test_attention.py": 3,
    "lowering/test_backward.py": 3,
    "lowering/test_bands.py": 3,
    "lowering/test_bf16.py": 3,
    "lowering/test_borders.py": 3,
    "lowering/test_convolution.py": 3,
    "lowering/test_dtypes.py": 3,
    "lowering/test_engine_attention.py": 5,
    "lowering/test_engine_bits.py": 4,
    "lowering/test_engine_channels.py": 4,
    "lowering/test_engine_factors.py": 5,
    "lowering/test_engine_floats.py": 5,
    "lowering/test_engine_phases.py": 4,
    "lowering/test_engine_plan.py": 4,
    "lowering/test_engine_resize.py": 3,
    "lowering/test_engine_rows.py": 4,
    "lowering/test_engine_sums.py": 4,
    "lowering/test_engine_width_tiling.py": 4,
    "lowering/test_fourier.py": 3,
    "lowering/test_indexing.py": 3,
    "lowering/test_integers.py": 3,
    "lowering/test_layouts.py": 3,
    "lowering/test_legality.py": 3,
    "lowering/test_matmul.py": 3,
    "lowering/test_movement.py": 3,
    "lowering/test_narrow_weights.py": 3,
    "lowering/test_normalization.py": 4,
    "lowering/test_number_range.py": 4,
    "lowering/test_pattern_mistakes.py": 3,
    "lowering/test_pointwise.py": 3,
    "lowering/test_pooling.py": 3,
    "lowering/test_quantised.py": 3,
    "lowering/test_quantised_float_operators.py": 3,
    "lowering/test_quantised_flow.py": 3,
    "lowering/test_quantised_tensor_scales.py": 3,
    "lowering/test_recurrent.py": 3,
    "lowering/test_reduction.py": 4,
    "lowering/test_resampling.py": 4,
    "lowering/test_scalar_operands.py": 3,
    "lowering/test_scan.py": 3,
    "lowering/test_statistics.py": 3,
    "lowering/test_strides.py": 4,
    "lowering/test_unsigned.py": 3,
    "lowering/test_views.py": 3,
    "lowering/test_winograd.py": 3,
    "models/test_models.py": 3,
    "quantize/test_join_readers.py": 2,
    "quantize/test_masks.py": 3,
    "quantize/test_part_scales.py": 3,
    "quantize/test_products.py": 3,
    "quantize/test_quantizer.py": 3,
    "quantize/test_rotary.py": 4,
    "test_opinfo.py": 3,
    "workloads/test_workloads.py": 3,
    "xclbin_build/check/test_command.py": 3,
    "xclbin_build/check/test_delays.py": 4,
    "xclbin_build/check/test_flattening.py": 4,
    "xclbin_build/check/test_frontend.py": 4,
    "xclbin_build/check/test_inlining.py": 2,
    "xclbin_build/check/test_loops.py": 4,
    "xclbin_build/check/test_mutations.py": 4,
    "xclbin_build/check/test_nests.py": 4,
    "xclbin_build/check/test_own_accord.py": 4,
    "xclbin_build/check/test_ports.py": 3,
    "xclbin_build/check/test_reported.py": 4,
    "xclbin_build/check/test_scheduling.py": 4,
    "xclbin_build/check/test_sources.py": 4,
    "xclbin_build/check/test_tables.py": 4,
    "xclbin_build/check/test_variants.py": 4,
    "xclbin_build/test_csim.py": 3,
    "xclbin_build/test_dataflow.py": 4,
    "xclbin_build/test_emulation_build.py": 3,
    "xclbin_build/test_escape.py": 3,
    "xclbin_build/test_flow.py": 3,
    "xclbin_build/test_scaffold.py": 3,
    "xclbin_build/test_synthesis_reports.py": 4,
    "xclbin_build/test_vitis.py": 4,
    "xclbin_build/test_vpp.py": 3,
}
"""Files whose tests have many cases that take long: of each test `make test` runs every n-th case, `make extended` the
others."""


LONG = (
    "backend/test_counting_card.py::test_each_of_many_sizes_has_a_launch_of_its_own",
    "backend/test_dynamic_shapes.py::test_a_bound_program_has_the_words_of_one_that_is_lowered_for_the_size",
    "backend/test_engines_together.py::test_the_sources_for_vitis_give_the_same_bits",
    "backend/test_entry_point.py::test_torch_logs_shows_passes_and_decisions",
    "backend/test_weight_changes.py::test_deleting_one_model_leaves_the_others_alone",
    "card_server/test_compile.py::test_the_server_offers_its_own_xclbin",
    "card_server/test_compile.py::test_two_clients_at_once",
    "device/test_processes.py::test_nothing_is_built_for_programs_without_device_tensors",
    "driver/test_conformance.py::test_conformance_over_a_network",
    "hls_kernels/test_ap_types.py::test_the_same_program_prints_the_same",
    "hls_kernels/test_engine.py::test_bench_without_sanitizers",
    "hls_kernels/test_engine.py::test_notices_a_mistake",
    "hls_kernels/test_engine_networks.py::test_a_network_of_everything_is_exact",
    "hls_kernels/test_engine_networks.py::test_resnet18_is_exact_and_as_fast_as_the_model_says",
    "hls_kernels/test_engine_vector.py::test_notices_a_mistake",
    "hls_kernels/test_engine_vector_floats.py::test_the_cost_model_tells_the_cycles",
    "hls_kernels/test_headers.py::test_arithmetic_of_fixed_point",
    "hls_kernels/test_instruction_sets.py::test_bf16_is_accurate_on_every_instruction_set",
    "hls_kernels/test_instruction_sets.py::test_instruction_sets_with_fused_multiply_add_give_the_same_bits",
    "hls_kernels/test_requantize.py::test_channels_are_those_of_the_header",
    "hls_kernels/test_sim.py::test_another_contract_changes_the_count",
    "lowering/test_engine_attention.py::test_errors_are_of_the_size_of_eagers_whatever_that_of_the_scores",
    "lowering/test_engine_attention.py::test_heads_that_the_host_writes_may_be_of_several_sequences",
    "lowering/test_engine_floats.py::test_an_item_of_what_the_host_makes_goes_back_to_the_card",
    "lowering/test_engine_floats.py::test_cards_of_several_recipes_are_loaded_in_turns",
    "lowering/test_engine_width_tiling.py::test_mistakes_are_noticed",
    "lowering/test_partition.py::test_no_mixture_of_card_and_eager_is_a_cycle",
    "lowering/test_strides.py::test_any_program_s_strides_are_told",
    "malformed_input/test_command_lines.py::test_a_reader_that_has_gone",
    "onnx/test_quantized_models.py::test_command_lines",
    "quantize/test_masks.py::test_masked_attention_is_one_launch_of_integers",
    "quantize/test_masks.py::test_whatever_a_mask_adds_nothing_is_left_of_what_it_masks",
    "quantize/test_on_card.py::test_a_transformer_layer",
    "quantize/test_on_card.py::test_digits",
    "quantize/test_on_card.py::test_embeddings",
    "serving/test_serve.py::test_refused_command_lines",
    "soc/test_realtime.py::test_nothing_is_kept_of_instances_that_are_over",
    "soc/test_statistics.py::test_no_system_and_no_policy_is_left_out",
    "soc/test_sweep.py::test_a_study_is_two_commands",
    "soc/test_virtual.py::test_every_run",
    "soc/test_virtual.py::test_the_default_policy_is_one",
    "xclbin_build/check/test_mutations.py::test_a_mistake_in_the_engine_is_found",
    "xclbin_build/check/test_sources_of_others.py::test_what_becomes_of_them",
    "xclbin_build/check/test_tables.py::test_what_depends_on_anything_else_is_filled_by_its_loop",
    "xclbin_build/cosim/test_cycles.py::test_a_depth_that_resolves_a_deadlock",
    "xclbin_build/cosim/test_reports.py::test_memory_has_a_range",
    "xclbin_build/test_cycles.py::test_emu_runs_the_same_kernel_without_counting",
    "xclbin_build/test_dataflow.py::test_elements_that_nobody_reads_are_told",
    "xclbin_build/test_emulation_build.py::test_cached_builds_once",
    "xclbin_build/test_emulation_build.py::test_the_plan_can_be_of_any_instruction_set",
    "xclbin_build/test_engine_kernel.py::test_a_kernel_may_be_called_engine",
    "xclbin_build/test_escape.py::test_the_folder_of_a_recipe_may_have_any_name",
    "xclbin_build/test_pragma_lint.py::test_the_kernels_of_the_package_have_no_findings",
    "xclbin_build/test_progress.py::test_the_command_shows_the_same",
    "xclbin_build/test_scaffold.py::test_scaffolds_pass_as_they_are",
    "xclbin_build/test_signature.py::test_what_is_passed_arrives",
    "xclbin_build/test_vpp.py::test_a_kernel_whose_partner_has_not_been_started_waits",
    "xclbin_build/test_vpp.py::test_kernels_in_a_row_run_at_the_same_time",
    "xclbin_build/test_vpp.py::test_tasks_between_kernels_run_on",
)
"""Single tests of 3 to 50 seconds, whose subject a shorter test covers, too: only `make extended` runs them."""


@pytest.fixture(autouse=True)
def internal_errors_fall_back(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test marked `internal_errors` causes internal errors and sees the graph fall back to eager mode."""
    if request.node.get_closest_marker("internal_errors"):
        monkeypatch.delenv("FPGA_DYNAMO_INTERNAL_ERRORS")


def _part(text: str) -> tuple[int, int]:
    """ "1/3" as (1, 3)."""
    given = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if given is None or int(given[1]) > int(given[2]):
        raise argparse.ArgumentTypeError(f"it must be K/N with K from 1 to N, such as 1/3, not {text!r}")
    return int(given[1]), int(given[2])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part", type=_part, default=(1, 1), metavar="K/N", help="every N-th of the selected tests, from the K-th on"
    )


@pytest.hookimpl(tryfirst=True)  # marks decide what is run
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    rank = {here / name: position for position, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))
    every = {here / name: n for name, n in EVERY.items()}
    long = {(here / name, test) for name, _, test in (name.partition("::") for name in LONG)}
    cases: Counter[tuple[Path, str]] = Counter()
    for item in items:
        if not isinstance(item, pytest.Function) or item.get_closest_marker("slow"):
            continue
        test = item.path, item.originalname
        if test in long or cases[test] % every.get(item.path, 1):
            for mark in EXTENDED:
                item.add_marker(mark)
        cases[test] += 1


class _Part:
    """Keeps every N-th of the tests that marks have selected."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        part, parts = config.getoption("--part")
        left_out = [item for number, item in enumerate(items) if number % parts != part - 1]
        config.hook.pytest_deselected(items=left_out)
        items[:] = items[part - 1 :: parts]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Part())
