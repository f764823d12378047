#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "borrowed_threads.hpp"
#include "error.hpp"
#include "interpreter.hpp"
#include "kernel.hpp"
#include "pyxrt_types.hpp"

using card_model::card;
using card_model::kernel_info;
using card_model::memory_info;
using card_model::uuid;
using card_model::xclbin;

namespace {

struct xclbin_memory {
    memory_info info;
    uint32_t index;
};

std::string describe(const device& self, device_info what) {
    const auto image = self.card->try_loaded();
    switch (what) {
        case device_info::bdf: return "emulated:" + std::to_string(self.card->index());
        case device_info::name: return image ? image->file().platform() : "fpga_dynamo emulator";
        case device_info::offline: return "false";
    }
    throw card_model::error("unknown device information");
}

nb::list memory_of(const device& self) {
    self.card->release_ended();
    nb::list banks;
    const auto image = self.card->loaded();
    for (const auto& bank : image->banks()) {
        if (!bank) continue;
        nb::dict row;
        row["tag"] = bank->tag();
        row["index"] = bank->index();
        row["bytes"] = bank->bytes();
        row["used"] = bank->used();
        row["buffers"] = bank->buffers();
        banks.append(row);
    }
    return banks;
}

nb::dict counters_of(const device& self) {
    const auto& counters = self.card->counters();
    nb::dict result;
    result["bytes_to_device"] = counters.to_device.load();
    result["bytes_from_device"] = counters.from_device.load();
    result["runs"] = counters.runs.load();
    return result;
}

void bind_xclbin(nb::module_& module) {
    bind_uuid<uuid>(module, card_model::parse_uuid, card_model::to_string);

    nb::class_<xclbin> file(module, "xclbin");
    nb::class_<xclbin_memory>(file, "xclbinmem")
        .def("get_tag", [](const xclbin_memory& self) { return self.info.tag; })
        .def("get_base_address", [](const xclbin_memory& self) { return self.info.base; })
        .def("get_size_kb", [](const xclbin_memory& self) { return self.info.bytes / 1024; })
        .def("get_used", [](const xclbin_memory& self) { return self.info.used; })
        .def("get_index", [](const xclbin_memory& self) { return self.index; });
    nb::class_<kernel_info>(file, "xclbinkernel")
        .def("get_name", [](const kernel_info& self) { return self.name; })
        .def("get_num_args", [](const kernel_info& self) { return self.arguments.size(); })
        .def("get_cus", [](const kernel_info& self) {
            std::vector<std::string> names;
            names.reserve(self.compute_units.size());
            for (const auto& unit : self.compute_units) names.push_back(unit.name);
            return names;
        });
    file.def("__init__",
             [](xclbin* self, const std::string& path) {
                 without_gil release;
                 new (self) xclbin(xclbin::from_file(path));
             })
        .def("get_kernels", [](const xclbin& self) { return self.kernels(); })
        .def("get_mems",
             [](const xclbin& self) {
                 std::vector<xclbin_memory> memories;
                 for (const memory_info& memory : self.memories())
                     memories.push_back({memory, static_cast<uint32_t>(memories.size())});
                 return memories;
             })
        .def("get_uuid", [](const xclbin& self) { return self.id(); })
        .def("get_xsa_name", [](const xclbin& self) { return self.platform(); })
        .def("get_manifest", [](const xclbin& self) { return self.manifest(); });
}

}  // namespace

void bind_device(nb::module_& module) {
    bind_xclbin(module);
    nb::class_<device>(module, "device")
        .def(
            "__init__", [](device* self, unsigned index) { new (self) device{card::open(index)}; },
            nb::arg("index") = 0)
        .def("load_xclbin",
             [](const device& self, const xclbin& file) {
                 without_gil release;
                 self.card->load(file);
                 return file.id();
             })
        .def("load_xclbin",
             [](const device& self, const std::string& path) {
                 without_gil release;
                 const xclbin file = xclbin::from_file(path);
                 self.card->load(file);
                 return file.id();
             })
        .def("context", [](const device& self) { return device{card::beside(self.card->index())}; })
        .def("get_xclbin_uuid",
             [](const device& self) {
                 const auto image = self.card->try_loaded();
                 return image ? image->file().id() : uuid{};
             })
        .def("get_info", &describe)
        .def("lanes", [](const device& self) { return self.card->loaded()->lanes(); })
        .def("windows", [](const device&) { return nb::make_tuple(card_model::WINDOW_BYTES, card_model::WINDOW_BEAT); })
        .def("memory", &memory_of)
        .def("counters", &counters_of);
    module.def("enumerate_devices", &card::count);
    module.def("borrowed_runs", &card_model::borrowed_runs);
}
