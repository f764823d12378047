// Memory as compute units see it.
#pragma once
#include <cstdint>
#include <string>

namespace card_model {

// A buffer: where it lies on the card, and for the host.
struct buffer_extent {
    uint64_t address = 0, bytes = 0;
    uint8_t* host = nullptr;
};

// One per loaded xclbin.
class address_space {
public:
    virtual ~address_space() = default;
    // Host pointer of a card address and how far its buffer goes on from there; null if no buffer lies there.
    virtual void* translate(uint64_t address, uint64_t* bytes) const = 0;
    // The buffer that contains a card address; false if no buffer does.
    virtual bool find(uint64_t address, buffer_extent* found) const = 0;
    // The buffer in which a host address lies, or from whose begin or end it is less than a page away.
    virtual bool find_near(const void* host, buffer_extent* found) const = 0;
    // For messages: what a host address means on this card; empty for other addresses.
    virtual std::string describe(const void* host) const = 0;
};

// How far a host address is from a buffer: 0 within it.
inline uint64_t distance(const void* host, const buffer_extent& buffer) {
    const auto* at = static_cast<const uint8_t*>(host);
    if (at < buffer.host) return static_cast<uint64_t>(buffer.host - at);
    const uint8_t* end = buffer.host + buffer.bytes;
    return at < end ? 0 : static_cast<uint64_t>(at - end) + 1;
}

}  // namespace card_model
