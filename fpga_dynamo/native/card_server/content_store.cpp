#include "content_store.hpp"

#include <cstring>

#include "digest.hpp"
#include "error.hpp"

namespace card_server {

uint64_t content_store::bytes() const {
    std::lock_guard lock(mutex_);
    return bytes_;
}

content content_store::get(const std::string& digest) {
    std::lock_guard lock(mutex_);
    const auto found = known_.find(digest);
    if (found == known_.end()) return nullptr;
    order_.splice(order_.end(), order_, found->second.place);
    return found->second.bytes;
}

void content_store::put(const std::string& digest, const void* bytes, size_t count) {
    if (digest_of(bytes, count) != digest)
        throw card_model::error("the content of a request does not have the digest that the request names");
    if (count > most_) return;
    const auto copy = std::make_shared<memory_block>(count);
    std::memcpy(copy->data(), bytes, count);
    std::lock_guard lock(mutex_);
    if (known_.count(digest)) return;
    known_[digest] = {copy, order_.insert(order_.end(), digest)};
    bytes_ += count;
    while (bytes_ > most_) {
        const auto oldest = known_.find(order_.front());
        bytes_ -= oldest->second.bytes->bytes();
        known_.erase(oldest);
        order_.pop_front();
    }
}

}  // namespace card_server
