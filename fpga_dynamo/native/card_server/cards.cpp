#include "cards.hpp"

#include "error.hpp"
#include "json.hpp"
#include "xclbin.hpp"

namespace card_server {

using card_model::error;

namespace {

// Compute units that work together need runs of their own kind: the server in Python has them.
void check_units(const std::string& bytes, const std::string& name) {
    const auto file = card_model::xclbin::from_bytes(bytes, name);
    if (file.manifest().empty()) return;  // of no recipe of ours: plain kernels
    const auto manifest = card_model::json::parse(file.manifest());
    const auto* kernels = manifest.find("kernels");
    if (!kernels) return;
    for (const auto& kernel : kernels->as_array("kernels"))
        if (kernel.find("peers"))
            throw card_model::xclbin_error("xclbin '" + name +
                                           "' has compute units that work together, which this server does not "
                                           "support; use `fpga-dynamo card-server`, or an xclbin with one unit");
}

}  // namespace

cards::cards(std::unique_ptr<card_driver> from, const limits& allowed, std::unique_ptr<offered_xclbin> own,
             bool only_offered)
    : driver(std::move(from)),
      most(allowed),
      kept(allowed.kept_bytes),
      offered(std::move(own)),
      count_(driver->count()),
      only_offered_(only_offered) {}

std::shared_ptr<served_card> cards::open(uint64_t index) const {
    if (index >= count_)
        throw error("there is no card " + std::to_string(index) + ": the server has " + std::to_string(count_));
    return driver->open(static_cast<unsigned>(index));
}

void cards::take(uint64_t bytes) {
    std::lock_guard lock(mutex_);
    if (bytes > most.device_bytes - used_)
        throw card_model::out_of_memory("a buffer of " + std::to_string(bytes) + " bytes: " + std::to_string(used_) +
                                        " of " + std::to_string(most.device_bytes) +
                                        " bytes are in use by all clients of the server (--memory)");
    used_ += bytes;
}

void cards::give(uint64_t bytes) {
    std::lock_guard lock(mutex_);
    used_ -= bytes;
}

uint64_t cards::used() const {
    std::lock_guard lock(mutex_);
    return used_;
}

std::string cards::load(const void* session, uint64_t index, served_card& card, const std::string& digest) {
    const bool own = offered && offered->digest == digest;
    if (only_offered_ && !own)
        throw error("the server loads no xclbin but its own (--only-own-xclbin): leave option 'xclbin' out");
    std::string bytes;
    if (own) {
        bytes = offered->bytes;
    } else {
        const content found = kept.get(digest);
        if (!found) return "";
        bytes.assign(reinterpret_cast<const char*>(found->data()), found->bytes());
    }
    const std::string name = digest + ".xclbin";
    check_units(bytes, name);
    if (driver->has_contexts()) return card.load(bytes, name);
    std::lock_guard lock(loading_);
    loaded& current = loaded_[index];
    const size_t others = current.users.size() - current.users.count(session);
    if (others && current.digest != digest)
        throw error("card " + std::to_string(index) + " runs another xclbin for " + std::to_string(others) +
                    " other client(s) of the server; use that one, or try again when they have gone");
    const std::string id = card.load(bytes, name);
    current.digest = digest;
    current.users.insert(session);
    return id;
}

void cards::forget(const void* session) {
    std::lock_guard lock(loading_);
    for (auto& [index, current] : loaded_) current.users.erase(session);
}

}  // namespace card_server
