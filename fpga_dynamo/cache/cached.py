"""Lowering with a disk cache in front: a program that any process of this user has lowered before is read, not made."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from typing import Any

import torch
from torch.fx import GraphModule

from fpga_dynamo.cache import artifacts, seal, store
from fpga_dynamo.cache.graphs import graph_to_plain
from fpga_dynamo.cache.keys import program_key
from fpga_dynamo.cache.plain import CorruptError, UnstorableError
from fpga_dynamo.cache.programs import plan_from_plain, plan_to_plain
from fpga_dynamo.ir.program import Program
from fpga_dynamo.ir.target import Target
from fpga_dynamo.lowering.garbage import collector_paused
from fpga_dynamo.lowering.passes.pipeline import assemble, lower_to_plan, prepare
from fpga_dynamo.options import Options
from fpga_dynamo.runtime.observe import counters

log = logging.getLogger(__name__)


def is_on(options: Options) -> bool:
    """Whether programs are kept on disk: not for options that want to see how one comes about."""
    wanted = options.cache and options.dump_dir is None and not torch.compiler.config.force_disable_caches
    return wanted and store.size_limit() > 0


def lower_cached(module: GraphModule, target: Target, options: Options, static: Collection[int] = ()) -> Program:
    """What :func:`fpga_dynamo.lowering.passes.pipeline.lower` gives, from the cache if it is there, else kept in it."""
    key = _key(module, target, options, static)
    with collector_paused():
        program = None if key is None else load(key, module, target, static)
        if program is None:
            program, plan = lower_to_plan(module, target, options, static)
            if key is not None:
                _keep(key, program, plan)
    return program


def _key(module: GraphModule, target: Target, options: Options, static: Collection[int]) -> str | None:
    if not is_on(options):
        return None
    try:
        return program_key(graph_to_plain(module), target, options, static)
    except UnstorableError as error:
        log.debug("a graph is not cached: %s", error)
        return None


def load(key: str, module: GraphModule, target: Target, static: Collection[int]) -> Program | None:
    """The program called `key`, of a graph that is equal to that which it was made for."""
    began = time.perf_counter()
    found = store.read(key)
    if found is None:
        return None
    entry, content = found
    try:
        seal.check(entry.header, entry.raw)
        graph = prepare(module, target, static)
        program = assemble(graph, plan_from_plain(graph, entry.header, entry.raw))
    except CorruptError as error:
        store.report_unusable(key, error)
        return None
    except Exception as error:  # of whatever kind: the same graph without the entry is compiled as ever
        # Its checksum is right, so it is what somebody wrote: a forger, or this package, which then has made a mistake.
        log.warning(
            "an intact compiled program in the cache cannot be used; please report this: %s", key, exc_info=error
        )
        store.report_unusable(key, error)
        return None
    artifacts.record(key, content)
    seconds = time.perf_counter() - began
    counters.add(programs_loaded=1)
    log.info("%s: read from the cache in %.1f ms (%s)", program.name, seconds * 1e3, key)
    return program


def _keep(key: str, program: Program, plan: Any) -> None:
    try:
        header, raw = plan_to_plain(program.graph, plan)
    except (UnstorableError, CorruptError) as error:
        log.debug("%s is not cached: %s", program.name, error)
        return
    content = seal.serialise(key, header, raw)
    store.write(key, content)
    artifacts.record(key, content)
