// The processes of the vector side, for ../engine.hpp: what lies between the lines that load_input and load_residual read and
// those that store writes.
#pragma once
#include "streams.hpp"

#if ENGINE_HAS_VECTOR && ENGINE_ELEMENT != 0
#include "floats/apply.hpp"
#include "floats/collect.hpp"
#include "floats/rows.hpp"
#include "floats/weigh.hpp"

#define VECTOR_PROCESSES(region, side)                                                                               \
    PROCESS(region, collect(side.collect_jobs, side.input, side.first, side.collected));                             \
    PROCESS(region, center_rows(side.center_jobs, side.collected, side.centers));                                    \
    PROCESS(region, weigh(side.weigh_jobs, side.weigh_params, side.first, side.centers, side.second, side.weighed)); \
    PROCESS(region, scale_rows(side.scale_jobs, side.weighed, side.scales));                                         \
    PROCESS(region, apply(side.apply_jobs, side.params, side.second, side.scales, side.output))
#elif ENGINE_HAS_VECTOR
#include "apply.hpp"
#include "collect.hpp"
#include "scale_rows.hpp"
#include "weigh.hpp"

#define VECTOR_PROCESSES(region, side)                                                                                 \
    PROCESS(region, collect(side.collect_jobs, side.input, side.other, side.first, side.collected, side.moved));       \
    PROCESS(region, weigh(side.weigh_jobs, side.weigh_params, side.first, side.collected, side.second, side.weighed)); \
    PROCESS(region, scale_rows(side.scale_jobs, side.weighed, side.scales));                                           \
    PROCESS(region, apply(side.apply_jobs, side.params, side.second, side.scales, side.output))
#else
#define VECTOR_PROCESSES(region, side) static_cast<void>(side)
#endif
