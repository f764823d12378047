// The parts of the Python module; each file binds what its name says.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>

#include "card.hpp"

namespace nb = nanobind;

// pyxrt's device: a handle of a card.
struct device {
    std::shared_ptr<card_model::card> card;
};

void bind_errors(nb::module_& module);
void bind_device(nb::module_& module);
void bind_buffer(nb::module_& module);
void bind_card_protocol(nb::module_& module);
void bind_kernel(nb::module_& module);
void bind_fingerprint(nb::module_& module);
void bind_bypass(nb::module_& module);
void bind_direct_call(nb::module_& module);
void bind_model(nb::module_& module);
void bind_pack_panels(nb::module_& module);
void bind_scheduling(nb::module_& module);
