// The card as XRT's sw_emu driver sees it from another process: memory at addresses that the driver chooses, and
// compute units behind their registers.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "compute_unit.hpp"
#include "kernel_code.hpp"
#include "lanes.hpp"
#include "red_zone.hpp"
#include "status_page.hpp"

namespace xrt_model {

class memory : public card_model::address_space {
public:
    memory();
    // A file that the host maps as its side of the buffer; the path is that of a descriptor of this process.
    // shared: it is the model's side, too. Otherwise the driver copies between the sides.
    std::string allocate(uint64_t address, uint64_t bytes, bool shared);
    // The buffer there becomes the memory of a file of `allocate`, maybe of another card's model.
    void import(uint64_t address, const std::string& path);
    void release(uint64_t address);
    // Throws std::runtime_error unless the range lies in one buffer.
    uint8_t* range(uint64_t address, uint64_t bytes) const;

    void* translate(uint64_t address, uint64_t* bytes) const override;
    bool find(uint64_t address, card_model::buffer_extent* found) const override;
    bool find_near(const void* host, card_model::buffer_extent* found) const override;
    std::string describe(const void* host) const override;

private:
    struct buffer {
        uint64_t bytes;
        int file;
    };
    // The driver rounds buffers up to whole pages and packs them without a gap. At twice its address each lies between
    // pages that nobody may touch.
    uint8_t* host(uint64_t address) const { return base_ + card_model::PAGE + 2 * address; }
    card_model::buffer_extent extent(const std::pair<const uint64_t, buffer>& entry) const {
        return {entry.first, entry.second.bytes, host(entry.first)};
    }
    void place(uint64_t address, uint64_t bytes, int file) const;  // file: -1 for memory of the model alone
    uint8_t* base_;
    mutable std::shared_mutex mutex_;
    std::map<uint64_t, buffer> buffers_;
};

// A compute unit and its registers.
class register_unit {
public:
    register_unit(card_model::compute_unit& unit, status_page* status)
        : unit_(unit), status_(status), registers_(BYTES) {}
    void write(uint32_t offset, const void* data, size_t bytes);
    uint32_t read(uint32_t offset);
    void cancel(uint32_t run);  // if that is under way

    static constexpr uint32_t BYTES = 1 << 16;

private:
    void start();
    void note(uint32_t run, const card_model::ert_command& command, card_model::ert_state state);

    card_model::compute_unit& unit_;
    status_page* const status_;
    std::vector<uint8_t> registers_;
    std::mutex mutex_;  // of what follows
    std::shared_ptr<card_model::ert_command> command_;
    uint32_t run_ = 0;
    bool told_ = true;              // the host has read that the run is done
    std::atomic<bool> over_{true};  // and so is what was to be noted of it
};

class model_card {
public:
    explicit model_card(status_page* status);
    ~model_card();
    // Takes up the kernels of an xclbin whose XML and shared object lie in files. Throws.
    void load(const std::string& xml, const std::string& object);
    memory& ram() { return memory_; }
    // The unit that the address belongs to, and the offset from its base; null for an address of no unit.
    register_unit* at(uint64_t address, uint32_t* offset);
    void cancel(uint32_t run);

private:
    struct program;
    status_page* const status_;
    memory memory_;
    std::mutex mutex_;                                // of programs_
    std::vector<std::unique_ptr<program>> programs_;  // the last one counts; kernels of the others may still run
};

}  // namespace xrt_model
