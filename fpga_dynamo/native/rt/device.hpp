// A card with a model's xclbin: memory, and runs of its kernels. One class for each driver implements it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launchable.hpp"
#include "xclbin.hpp"

namespace fd {

// A buffer in device memory.
class device_memory {
public:
    virtual ~device_memory() = default;
    // From the host; throws std::exception for a range outside the buffer.
    virtual void write(const void* from, uint64_t bytes, uint64_t offset) = 0;
};

// What an argument of a kernel that runs command lists is.
enum class role { commands, count, arena, weights };

// A kernel of the xclbin: what its arguments are, in order, and the names of its compute units.
struct kernel_description {
    std::string name;
    std::vector<role> arguments;
    std::vector<std::string> units;
};

struct launch_memory {
    std::shared_ptr<device_memory> commands, arena, weights;
    uint32_t count;  // of commands
};

class device {
public:
    virtual ~device() = default;
    // For the argument with this role. Throws std::exception, as of a bank that is full.
    virtual std::shared_ptr<device_memory> allocate(const kernel_description& kernel, role argument,
                                                    uint64_t bytes) = 0;
    // A run on one compute unit with its arguments set; it keeps the memory.
    virtual std::unique_ptr<launchable> prepare(const kernel_description& kernel, size_t unit,
                                                const launch_memory& memory) = 0;
};

// Throws model_error if the file is not the xclbin with this UUID. Returns the file's content.
card_model::xclbin check_xclbin(const std::string& path, const std::string& uuid);

// The card `index` with the xclbin at `path` loaded, shared by all models of the process that want the same. uuid: what
// the xclbin's must be. Throws std::exception, model_error if the file is another.
std::shared_ptr<device> open_device(const std::string& path, const std::string& uuid, unsigned index);

}  // namespace fd
