// The emulator as XRT's drivers see a card: numbered buffers, compute units by index, commands in buffers.
#pragma once
#include <ert.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "buffer.hpp"
#include "card.hpp"
#include "ert_command.hpp"

namespace xrt_hal {

// A buffer object. Command buffers have only a host side; device_only ones only the card's.
struct buffer_object {
    std::unique_ptr<card_model::buffer> memory;    // on the card; null for a command buffer, or without an xclbin
    std::shared_ptr<card_model::staging> spare;    // its place on a card without an xclbin: no kernel reaches it
    std::shared_ptr<card_model::staging> staging;  // the host's side, unless it is the user's
    uint8_t* host = nullptr;
    uint64_t bytes = 0;
    unsigned flags = 0;
    // Of a command buffer: its last start, and the compute unit that took it.
    std::shared_ptr<card_model::ert_command> command;
    card_model::compute_unit* unit = nullptr;
};

// All members are thread-safe. Those that return int follow XRT: 0 or a negative errno; `last_error` has the sentence.
class hal_card {
public:
    // The same for the same index, for as long as the process lives. Throws card_model::error for an index without a card.
    static hal_card& of(unsigned index);

    int load(const void* xclbin, uint64_t bytes);

    // User memory as the host's side, or null for memory that the emulator allocates. Returns NO_BUFFER on failure.
    static constexpr unsigned NO_BUFFER = ~0u;
    unsigned allocate(uint64_t bytes, unsigned flags, void* user);
    void release(unsigned handle);
    std::shared_ptr<buffer_object> find(unsigned handle) const;  // null for an unknown handle
    int sync(unsigned handle, card_model::direction way, uint64_t bytes, uint64_t offset) const;
    int copy(unsigned target, unsigned source, uint64_t bytes, uint64_t target_offset, uint64_t source_offset) const;

    // A file descriptor that stands for the buffer, and another handle of that buffer, maybe on another card. Both sides
    // of the buffer are shared, as long as one of the handles lives.
    int export_buffer(unsigned handle) const;
    unsigned import_buffer(int file);

    int submit(unsigned handle);
    // Returns when a command of any card has ended since this thread last returned from here, or after timeout_ms: 1 or 0.
    static int wait_for_any(int timeout_ms);
    // Runs the command in this memory, which has been submitted, on the calling thread; false if its unit does not come to
    // it at once, and nothing has happened. A run that takes longer than timeout_ms (0: none) ends as ert_state::timeout.
    bool execute(const void* packet, unsigned timeout_ms);
    // Why the command in this memory ended in an error; empty if it did not.
    std::string error_of(const void* packet) const;

    // A register of a compute unit, by XRT's index of the unit. Starts go through commands alone.
    int read_register(unsigned unit, uint32_t offset, uint32_t& value) const;
    int write_register(unsigned unit, uint32_t offset, uint32_t value) const;

    card_model::card& card() { return *card_; }

private:
    explicit hal_card(unsigned index) : card_(card_model::card::open(index)) {}
    int start(const std::shared_ptr<buffer_object>& shared);
    std::shared_ptr<buffer_object> started(const void* packet) const;  // null if none is
    card_model::compute_unit* unit_of(unsigned unit, uint32_t offset) const;
    int abort(const ert_abort_cmd& request) const;
    card_model::compute_unit* choose(const ert_start_kernel_cmd& packet) const;
    static void ended(ert_packet* packet, ert_cmd_state state);

    const std::shared_ptr<card_model::card> card_;
    mutable std::mutex mutex_;  // of what follows
    std::shared_ptr<card_model::image> image_;
    std::vector<card_model::compute_unit*> units_;  // by XRT's index: in the order of their addresses
    std::unordered_map<unsigned, std::shared_ptr<buffer_object>> buffers_;
    std::unordered_map<const void*, std::shared_ptr<buffer_object>> commands_;  // that were started, by their memory
    unsigned next_handle_ = 1;
};

// The sentence behind the last failure on this thread.
std::string& last_error();
void set_last_error(const std::string& sentence);

}  // namespace xrt_hal
