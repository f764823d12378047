#include <experimental/xrt_ini.h>
#include <experimental/xrt_system.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <xclbin.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <map>

#include "bindings.hpp"
#include "checked.hpp"
#include "emulation.hpp"
#include "pyxrt_types.hpp"

namespace {

struct xclbin_memory {
    std::string tag;
    uint64_t base, kilobytes;
    bool used;
    uint32_t index;
};

struct xclbin_kernel {
    std::string name;
    size_t arguments;
    std::vector<std::string> units;
};

// XRT takes files that are cut off, or whose sections lie elsewhere, and reads beyond their end.
void check_container(const std::string& path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    const auto bytes = file ? static_cast<uint64_t>(file.tellg()) : 0;
    axlf head;
    file.seekg(0);
    if (!file.read(reinterpret_cast<char*>(&head), sizeof head) ||
        std::strncmp(head.m_magic, "xclbin2", sizeof "xclbin2") != 0)
        throw xclbin_error("xclbin '" + path + "': this is not an xclbin file, or it cannot be read");
    if (head.m_header.m_length > bytes)
        throw xclbin_error("xclbin '" + path + "': the file is truncated: the header says " +
                           std::to_string(head.m_header.m_length) + " bytes, there are " + std::to_string(bytes));
    file.seekg(offsetof(axlf, m_sections));
    for (uint32_t i = 0; i < head.m_header.m_numSections; ++i) {
        axlf_section_header section;
        if (!file.read(reinterpret_cast<char*>(&section), sizeof section) || section.m_sectionOffset > bytes ||
            section.m_sectionSize > bytes - section.m_sectionOffset)
            throw xclbin_error("xclbin '" + path + "': the table of sections reaches beyond the end of the file");
    }
}

xrt::xclbin read_xclbin(const std::string& path) {
    check_container(path);
    return checked([&] { return "xclbin '" + path + "'"; }, [&] { return xrt::xclbin(path); });
}

xrt::uuid load(const device& self, const xrt::xclbin& file) {
    card& opened = *self.opened;
    return checked([&] { return "card " + std::to_string(opened.index) + " rejects the xclbin"; },
                   [&] {
                       std::lock_guard one_by_one(opened.loading);
                       xrt::uuid id = file.get_uuid();
                       if (opened.loaded && opened.loaded.get_uuid() == id) return id;
                       opened.close_kernels();
                       std::lock_guard lock(opened.mutex);
                       const keep_signal_handlers keep;
                       enlarge_message_buffer(opened.handle());
                       const forget_mappings forget(static_cast<bool>(opened.loaded));
                       const xrt::uuid result = opened.device.load_xclbin(file);
                       watch_model();
                       opened.loaded = file;
                       return result;
                   });
}

#ifdef FPGA_DYNAMO_HW_CONTEXT
xrt::uuid register_xclbin(const device& self, const xrt::xclbin& file) {
    card& opened = *self.opened;
    return checked([&] { return "card " + std::to_string(opened.index) + " rejects the xclbin"; },
                   [&] {
                       std::lock_guard lock(opened.mutex);
                       const xrt::uuid id = opened.device.register_xclbin(file);
                       opened.loaded = file;
                       return id;
                   });
}
#endif

std::string describe(const device& self, device_info what) {
    const xrt::device& opened = self.opened->device;
    return checked([] { return "the card does not report this information"; },
                   [&]() -> std::string {
                       switch (what) {
                           case device_info::bdf: return opened.get_info<xrt::info::device::bdf>();
                           case device_info::name: return opened.get_info<xrt::info::device::name>();
                           case device_info::offline:
                               return opened.get_info<xrt::info::device::offline>() ? "true" : "false";
                       }
                       throw device_error("unknown device information");
                   });
}

nb::list memory_of(const device& self) {
    card& opened = *self.opened;
    std::lock_guard lock(opened.mutex);
    if (!opened.loaded)
        throw device_error("card " + std::to_string(opened.index) + " has no xclbin; call load_xclbin first");
    nb::list banks;
    for (const auto& memory : opened.loaded.get_mems()) {
        if (!memory.get_used()) continue;
        const auto index = static_cast<uint32_t>(memory.get_index());
        const bank_use use = opened.banks[index];
        nb::dict row;
        row["tag"] = memory.get_tag();
        row["index"] = index;
        row["bytes"] = memory.get_size_kb() * 1024;
        row["used"] = use.bytes;
        row["buffers"] = use.buffers;
        banks.append(row);
    }
    return banks;
}

nb::dict counters_of(const device& self) {
    card& opened = *self.opened;
    std::lock_guard lock(opened.mutex);
    nb::dict result;
    result["bytes_to_device"] = opened.to_device;
    result["bytes_from_device"] = opened.from_device;
    result["runs"] = opened.runs;
    return result;
}

void bind_xclbin(nb::module_& module) {
    bind_uuid<xrt::uuid>(
        module, [](const std::string& text) { return xrt::uuid(text); },
        [](const xrt::uuid& id) { return id.to_string(); });

    nb::class_<xrt::xclbin> file(module, "xclbin");
    nb::class_<xclbin_memory>(file, "xclbinmem")
        .def("get_tag", [](const xclbin_memory& self) { return self.tag; })
        .def("get_base_address", [](const xclbin_memory& self) { return self.base; })
        .def("get_size_kb", [](const xclbin_memory& self) { return self.kilobytes; })
        .def("get_used", [](const xclbin_memory& self) { return self.used; })
        .def("get_index", [](const xclbin_memory& self) { return self.index; });
    nb::class_<xclbin_kernel>(file, "xclbinkernel")
        .def("get_name", [](const xclbin_kernel& self) { return self.name; })
        .def("get_num_args", [](const xclbin_kernel& self) { return self.arguments; })
        .def("get_cus", [](const xclbin_kernel& self) { return self.units; });
    file.def("__init__", [](xrt::xclbin* self, const std::string& path) { new (self) xrt::xclbin(read_xclbin(path)); })
        .def("get_kernels",
             [](const xrt::xclbin& self) {
                 std::vector<xclbin_kernel> kernels;
                 for (const auto& kernel : self.get_kernels()) {
                     xclbin_kernel row{kernel.get_name(), kernel.get_num_args(), {}};
                     for (const auto& unit : kernel.get_cus()) {
                         const std::string name = unit.get_name();  // "kernel:unit"
                         row.units.push_back(name.substr(name.find(':') + 1));
                     }
                     kernels.push_back(std::move(row));
                 }
                 return kernels;
             })
        .def("get_mems",
             [](const xrt::xclbin& self) {
                 std::vector<xclbin_memory> memories;
                 for (const auto& memory : self.get_mems())
                     memories.push_back({memory.get_tag(), memory.get_base_address(), memory.get_size_kb(),
                                         memory.get_used(), static_cast<uint32_t>(memory.get_index())});
                 return memories;
             })
        .def("get_uuid", [](const xrt::xclbin& self) { return self.get_uuid(); })
        .def("get_xsa_name", [](const xrt::xclbin& self) { return self.get_xsa_name(); });
}

}  // namespace

std::shared_ptr<card> card::open(unsigned index) {
    static std::mutex& mutex = *new std::mutex;
    static auto& cards = *new std::map<unsigned, std::shared_ptr<card>>;
    std::lock_guard lock(mutex);
    std::shared_ptr<card>& slot = cards[index];
    if (!slot) slot = std::make_shared<card>(index);
    return slot;
}

void bind_device(nb::module_& module) {
    bind_xclbin(module);
    nb::class_<device>(module, "device")
        .def(
            "__init__",
            [](device* self, unsigned index) {
                new (self) device{checked([&] { return "card " + std::to_string(index) + " cannot be opened"; },
                                          [&] { return card::open(index); })};
            },
            nb::arg("index") = 0)
        .def("load_xclbin", &load)
        .def("load_xclbin", [](const device& self, const std::string& path) { return load(self, read_xclbin(path)); })
#ifdef FPGA_DYNAMO_HW_CONTEXT
        .def("register_xclbin", &register_xclbin)
#endif
        .def("get_xclbin_uuid",
             [](const device& self) {
                 return checked([] { return "the card does not report what is loaded"; },
                                [&] { return self.opened->device.get_xclbin_uuid(); });
             })
        .def("get_info", &describe)
        .def("memory", &memory_of)
        .def("counters", &counters_of);
    module.def("enumerate_devices", [] {
        return checked([] { return "XRT's driver cannot be loaded"; }, [] { return xrt::system::enumerate_devices(); });
    });
    const nb::object ini = module.def_submodule("ini",
                                                "XRT's configuration (xrt.ini), before the first card is opened.");
    nb::cast<nb::module_>(ini).def("set", [](const std::string& key, const std::string& value) {
        checked([&] { return "XRT rejects " + key; }, [&] { xrt::ini::set(key, value); });
    });
}
