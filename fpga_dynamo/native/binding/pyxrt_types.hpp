// What the modules of both drivers bind alike, under pyxrt's names: enumerations and UUIDs. A module may have types of
// its own for them; the values are XRT's.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/string.h>

#include <functional>
#include <string>

#include "buffer.hpp"
#include "ert_command.hpp"

enum class device_info { bdf, name, offline };

template <typename State, typename Direction>
void bind_enums(nanobind::module_& module) {
    using card_model::ert_state;
    nanobind::enum_<State> state(module, "ert_cmd_state");
    for (const ert_state value : {ert_state::created, ert_state::queued, ert_state::running, ert_state::completed,
                                  ert_state::error, ert_state::abort, ert_state::submitted, ert_state::timeout,
                                  ert_state::no_response, ert_state::sk_error, ert_state::sk_crashed})
        state.value(to_string(value), static_cast<State>(value));
    nanobind::enum_<Direction>(module, "xclBOSyncDirection")
        .value("XCL_BO_SYNC_BO_TO_DEVICE", static_cast<Direction>(card_model::direction::to_device))
        .value("XCL_BO_SYNC_BO_FROM_DEVICE", static_cast<Direction>(card_model::direction::from_device))
        .export_values();
    nanobind::enum_<device_info>(module, "xrt_info_device")
        .value("bdf", device_info::bdf)
        .value("name", device_info::name)
        .value("offline", device_info::offline);
}

template <typename Flags>
void bind_flags(nanobind::handle bo) {
    nanobind::enum_<Flags>(bo, "flags")
        .value("normal", Flags::normal)
        .value("cacheable", Flags::cacheable)
        .value("device_only", Flags::device_only)
        .value("host_only", Flags::host_only)
        .value("p2p", Flags::p2p)
        .value("svm", Flags::svm)
        .export_values();
}

template <typename Mode>
void bind_access_mode(nanobind::handle kernel) {
    nanobind::enum_<Mode>(kernel, "cu_access_mode")
        .value("exclusive", Mode::exclusive)
        .value("shared", Mode::shared)
        .value("none", Mode::none)
        .export_values();
}

template <typename Uuid>
void bind_uuid(nanobind::module_& module, Uuid (*parse)(const std::string&), std::string (*text)(const Uuid&)) {
    nanobind::class_<Uuid>(module, "uuid")
        .def("__init__", [parse](Uuid* self, const std::string& given) { new (self) Uuid(parse(given)); })
        .def("to_string", text)
        .def("__str__", text)
        .def("__repr__", [text](const Uuid& self) { return "uuid('" + text(self) + "')"; })
        .def("__hash__", [text](const Uuid& self) { return std::hash<std::string>()(text(self)); })
        .def("__eq__", [](const Uuid& a, const Uuid& b) { return a == b; }, nanobind::is_operator());
}
