// The cards of the server's machine: who has which xclbin on a card, and how much memory clients have.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "content_store.hpp"
#include "served_card.hpp"

namespace card_server {

// What clients may have: so many at a time, bytes of all buffers, bytes of content that is kept.
struct limits {
    uint64_t clients, device_bytes, kept_bytes;
};

// An xclbin that clients get who name none.
struct offered_xclbin {
    std::string digest, bytes;
};

class cards {
public:
    // only_offered: clients may load no other xclbin than the offered one.
    cards(std::unique_ptr<card_driver> driver, const limits& most, std::unique_ptr<offered_xclbin> offered,
          bool only_offered);

    const std::unique_ptr<card_driver> driver;
    const limits most;
    content_store kept;
    const std::unique_ptr<const offered_xclbin> offered;

    unsigned count() const { return count_; }
    // Throws card_model::error for an index without a card.
    std::shared_ptr<served_card> open(uint64_t index) const;

    // Counts memory of a card that a client is about to get. Throws card_model::out_of_memory if it would be too much.
    void take(uint64_t bytes);
    void give(uint64_t bytes);
    uint64_t used() const;

    // Loads an xclbin by its digest; the UUID, or "" if the content is not there. Throws card_model::error if other
    // sessions use the card with another one.
    std::string load(const void* session, uint64_t index, served_card& card, const std::string& digest);
    // The session has ended, and uses no card any more.
    void forget(const void* session);

private:
    struct loaded {
        std::string digest;
        std::set<const void*> users;
    };

    const unsigned count_;
    const bool only_offered_;
    mutable std::mutex mutex_;
    uint64_t used_ = 0;
    std::mutex loading_;
    std::map<uint64_t, loaded> loaded_;
};

}  // namespace card_server
