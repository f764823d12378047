// The cards of this process. FPGA_DYNAMO_EMULATED_CARDS says how many there are (default 1), FPGA_DYNAMO_LANES how many
// host threads a card computes on (default: the CPUs that the process may use).
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "image.hpp"

namespace card_model {

// What passed between host and card, in bytes, and how many runs have ended.
struct traffic {
    std::atomic<uint64_t> to_device{0}, from_device{0}, runs{0};
};

class card {
public:
    // The same card for the same index. Throws error for an index without a card.
    static std::shared_ptr<card> open(unsigned index);
    // A card of that number beside all others: with an xclbin, memory and compute units of its own, as if the card were
    // large enough for several at once. It ends with the last who refers to it.
    static std::shared_ptr<card> beside(unsigned index);
    static unsigned count();
    // Ends what runs on all cards; for the end of the process.
    static void shut_down();

    explicit card(unsigned index) : index_(index) {}

    unsigned index() const { return index_; }
    // Makes the card what the file says; the same UUID again changes nothing. Throws xclbin_error, or error while a run
    // is under way.
    void load(const xclbin& file);
    std::shared_ptr<image> loaded() const;  // throws error if nothing has been loaded
    std::shared_ptr<image> try_loaded() const;

    // Keeps what a run that nobody refers to any more still needs, until it has ended.
    void adopt(std::shared_ptr<const ert_command> command, std::shared_ptr<void> needs);
    void release_ended();

    traffic& counters() { return traffic_; }

private:
    struct abandoned_run {
        std::shared_ptr<const ert_command> command;
        std::shared_ptr<void> needs;
    };

    const unsigned index_;
    mutable std::mutex mutex_;
    std::mutex load_mutex_;  // one load at a time; a load does not hold mutex_
    std::shared_ptr<image> image_;
    std::vector<abandoned_run> abandoned_runs_;
    traffic traffic_;
};

}  // namespace card_model
