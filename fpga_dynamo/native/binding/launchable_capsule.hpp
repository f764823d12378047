// A launchable in a capsule, in which the modules of both drivers hand it to direct calls.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>

#include "launchable.hpp"

constexpr const char* LAUNCHABLE_CAPSULE = "fpga_dynamo.launchable";

inline nanobind::capsule hand_over(std::unique_ptr<launchable> target) {
    return nanobind::capsule(target.release(), LAUNCHABLE_CAPSULE,
                             [](void* object) noexcept { delete static_cast<launchable*>(object); });
}
