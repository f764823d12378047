// An xclbin file: the axlf container (layout as in XRT's xclbin.h) and what the emulator needs from its sections.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "stream.hpp"

namespace card_model {

using uuid = std::array<uint8_t, 16>;
std::string to_string(const uuid& id);
uuid parse_uuid(const std::string& text);  // throws error

struct memory_info {
    std::string tag;
    bool used = false;
    uint64_t base = 0;
    uint64_t bytes = 0;
};

struct argument_info {
    std::string name;
    bool global = false;  // a pointer into a bank
    bool stream = false;  // to or from another compute unit; without registers. Otherwise a scalar
    uint32_t offset = 0;  // in the register map
    uint32_t bytes = 0;   // in the register map
    bool output = false;  // a scalar that the kernel writes: the host need not give one
};

struct compute_unit_info {
    std::string name;
    uint64_t base = 0;
    std::vector<std::vector<uint32_t>> banks;  // per argument: indices of the banks that it is wired to
    std::vector<int> streams;                  // per argument: number of the stream that it is an end of, or -1
};

struct kernel_info {
    std::string name;
    bool lanes = false;  // its steps may be cut into slices that run side by side
    // Whether the ends of its buffers are looked at after each run. Of a sequencer the commands are checked before it.
    bool watch_buffers = false;
    bool free_running = false;  // without control registers: runs from the load of the xclbin on, again and again
    bool has_mailbox = false;   // the host exchanges arguments and results with it while it runs
    bool restarts = false;      // it runs again until the host has it stop
    std::vector<argument_info> arguments;
    std::vector<compute_unit_info> compute_units;

    // Whether its runs may wait for those of other compute units.
    bool has_streams() const {
        return std::any_of(arguments.begin(), arguments.end(), [](const argument_info& a) { return a.stream; });
    }
};

// The arguments, each as "unit.argument", that write to a stream and read from it.
using stream_ends = std::array<std::string, 2>;
// Gives the arguments of all compute units the numbers of their streams. Throws error for a stream without two ends, and
// for an end without a stream.
void connect_streams(std::vector<kernel_info>& kernels, const std::vector<stream_ends>& streams);

class xclbin {
public:
    // Both throw xclbin_error: the file cannot be read, is truncated, or contradicts itself.
    static xclbin from_file(const std::string& path);
    static xclbin from_bytes(const std::string& bytes, std::string name);

    // Throws xclbin_error when the emulator cannot run it: another target, or instructions that this CPU lacks.
    void check_runs_here() const;

    const std::string& name() const { return name_; }  // of the file, for messages
    const uuid& id() const { return id_; }
    const std::string& platform() const { return platform_; }
    const std::string& target() const { return target_; }
    // Whether its kernels are a shared object: `cycles` is `emu` with kernels that count.
    bool emulated() const { return target_ == "emu" || target_ == "sw_emu" || target_ == "cycles"; }
    const std::string& manifest() const { return manifest_; }  // JSON
    const std::vector<memory_info>& memories() const { return memories_; }
    const std::vector<kernel_info>& kernels() const { return kernels_; }
    const std::vector<stream_info>& streams() const { return streams_; }
    const std::string& bitstream() const { return bitstream_; }

private:
    void read_container(const std::string& bytes);
    void check_content(const std::string& bytes, uint32_t count) const;
    void read_manifest(const std::string& user_metadata);
    void read_memories(const std::string& section);
    void read_compute_units(const std::string& section);
    void read_connectivity(const std::string& section, const std::string& ip_layout);
    [[noreturn]] void fail(const std::string& what) const;

    std::string name_;
    uuid id_{};
    std::string platform_, target_, isa_, manifest_, bitstream_;
    std::vector<memory_info> memories_;
    std::vector<kernel_info> kernels_;
    std::vector<stream_info> streams_;
    std::vector<stream_ends> stream_ends_;
};

}  // namespace card_model
