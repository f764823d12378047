#include "kernel_code.hpp"

#include "error.hpp"
#include "faults.hpp"

namespace card_model {

namespace {

std::shared_ptr<shared_object> load(const std::string& object) {
    auto copy = std::make_shared<shared_object>(object);
    if (void* hook = copy->symbol("fpga_leave")) *static_cast<fpga::leave_function*>(hook) = leave;
    return copy;
}

}  // namespace

kernel_code::kernel_code(const std::string& object) : object_(object), first_(load(object)) {}

const fpga::cu_entry& kernel_code::entry(const std::string& kernel) const { return entry(*first_, kernel); }

const fpga::cu_entry& kernel_code::entry(const shared_object& copy, const std::string& kernel) {
    const auto* entry = static_cast<const fpga::cu_entry*>(copy.symbol("fpga_cu_" + kernel));
    if (!entry) throw error("symbol fpga_cu_" + kernel + " is missing");
    if (entry->abi != fpga::CARD_ABI)
        throw error("kernel '" + kernel + "' has card ABI " + std::to_string(entry->abi) + ", this release has " +
                    std::to_string(fpga::CARD_ABI) + "; build the file again");
    return *entry;
}

fpga::counters_function kernel_code::counters(const shared_object& copy, const std::string& kernel) {
    const auto* function = static_cast<const fpga::counters_function*>(copy.symbol("fpga_counters_" + kernel));
    return function ? *function : nullptr;
}

std::shared_ptr<shared_object> kernel_code::copy() {
    {
        std::lock_guard lock(mutex_);
        if (!first_taken_) {
            first_taken_ = true;
            return first_;
        }
    }
    return load(object_);
}

}  // namespace card_model
