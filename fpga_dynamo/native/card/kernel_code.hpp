// The code of an xclbin's kernels. As in hardware, a kernel's static and global variables belong to a compute unit and
// start again with each load of the card: every unit has a copy of the shared object to itself, from its first run on.
#pragma once
#include <memory>
#include <mutex>
#include <string>

#include "card_abi.hpp"
#include "shared_object.hpp"

namespace card_model {

class kernel_code {
public:
    // Loads a first copy. `object`, an ELF file, must outlive this. Throws error with the loader's reason.
    explicit kernel_code(const std::string& object);

    // A kernel in the first copy, for what is the same in all. Throws error if it is missing or of another release.
    const fpga::cu_entry& entry(const std::string& kernel) const;

    // A copy that nobody else has; the first one if it is free. Throws error.
    std::shared_ptr<shared_object> copy();
    static const fpga::cu_entry& entry(const shared_object& copy, const std::string& kernel);  // throws error
    // Null if the kernel does not count.
    static fpga::counters_function counters(const shared_object& copy, const std::string& kernel);

private:
    const std::string& object_;
    const std::shared_ptr<shared_object> first_;
    std::mutex mutex_;
    bool first_taken_ = false;
};

}  // namespace card_model
