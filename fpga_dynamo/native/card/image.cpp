#include "image.hpp"

#include <algorithm>
#include <thread>

#include "error.hpp"
#include "faults.hpp"

namespace card_model {

namespace {

size_t count_units(const xclbin& file) {
    size_t count = 0;
    for (const kernel_info& kernel : file.kernels()) count += kernel.compute_units.size();
    return count;
}

}  // namespace

std::shared_ptr<image> image::create(xclbin file, unsigned lanes) {
    file.check_runs_here();
    install_handlers();
    const std::string name = file.name();
    try {
        // The last owner may be anyone, even somebody for whom a compute unit's thread waits (in a callback): joining
        // those threads is left to a thread that nobody waits for.
        return std::shared_ptr<image>(new image(std::move(file), lanes),
                                      [](image* last) { std::thread([last] { delete last; }).detach(); });
    } catch (const out_of_memory&) {
        throw;
    } catch (const error& reason) {
        throw xclbin_error("xclbin '" + name + "': its kernels cannot be loaded: " + reason.what());
    }
}

image::image(xclbin file, unsigned lanes)
    : file_(std::move(file)), kernels_(file_.bitstream()), team_(lanes, count_units(file_)), streams_(file_.streams()) {
    for (size_t i = 0; i < file_.memories().size(); ++i) {
        const memory_info& memory = file_.memories()[i];
        banks_.push_back(memory.used ? std::make_shared<bank>(memory, static_cast<uint32_t>(i)) : nullptr);
    }
    for (const kernel_info& kernel : file_.kernels()) {
        for (const compute_unit_info& info : kernel.compute_units) {
            auto ends = kernel.has_streams() ? streams_.ends(info.streams) : std::vector<fpga::cu_stream>();
            units_.push_back(
                std::make_unique<compute_unit>(kernel, info, kernels_, team_, units_.size(), *this, std::move(ends)));
            unit_kernels_.push_back(&kernel);
        }
    }
    for (const auto& unit : units_)
        if (unit->free_running()) unit->run_for_ever();
}

const kernel_info& image::kernel(const std::string& name) const {
    std::string known;
    for (const kernel_info& kernel : file_.kernels()) {
        if (kernel.name == name) return kernel;
        known += (known.empty() ? "" : ", ") + kernel.name;
    }
    throw error("xclbin '" + file_.name() + "' has no kernel '" + name + "'; it has: " + known);
}

std::vector<compute_unit*> image::compute_units(const kernel_info& kernel) const {
    std::vector<compute_unit*> units;
    for (size_t i = 0; i < units_.size(); ++i)
        if (unit_kernels_[i] == &kernel) units.push_back(units_[i].get());
    return units;
}

bool image::busy() const {
    for (const auto& unit : units_)
        if (unit->load() && !unit->free_running()) return true;
    return false;
}

void* image::translate(uint64_t address, uint64_t* bytes) const {
    for (const auto& bank : banks_)
        if (bank)
            if (void* host = bank->translate(address, bytes)) return host;
    return nullptr;
}

bool image::find(uint64_t address, buffer_extent* found) const {
    return std::any_of(banks_.begin(), banks_.end(),
                       [&](const auto& bank) { return bank && bank->find(address, found); });
}

bool image::find_near(const void* host, buffer_extent* found) const {
    return std::any_of(banks_.begin(), banks_.end(),
                       [&](const auto& bank) { return bank && bank->find_near(host, found); });
}

std::string image::describe(const void* host) const {
    for (const auto& bank : banks_)
        if (bank)
            if (std::string text = bank->describe(host); !text.empty()) return text;
    return "";
}

}  // namespace card_model
