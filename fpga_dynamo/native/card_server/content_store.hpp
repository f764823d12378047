// Content by its digest: packed weights and xclbins, kept between sessions, the least recently used ones dropped.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>

namespace card_server {

// Memory of the host, zeroed, in which the cores can read and write tensors where they lie.
class memory_block {
public:
    explicit memory_block(size_t bytes) : bytes_(bytes) {
        data_ =
            static_cast<uint8_t*>(std::calloc(bytes + ALIGNMENT, 1));  // large ones take up room once they are touched
        if (!data_) throw std::bad_alloc();
    }
    ~memory_block() { std::free(data_); }
    memory_block(const memory_block&) = delete;
    memory_block& operator=(const memory_block&) = delete;
    uint8_t* data() const { return data_ + (ALIGNMENT - reinterpret_cast<uintptr_t>(data_) % ALIGNMENT) % ALIGNMENT; }
    size_t bytes() const { return bytes_; }

private:
    static constexpr size_t ALIGNMENT = 4096;
    uint8_t* data_;
    size_t bytes_;
};

using content = std::shared_ptr<const memory_block>;

// At most `most_bytes` of content.
class content_store {
public:
    explicit content_store(uint64_t most_bytes) : most_(most_bytes) {}

    uint64_t most_bytes() const { return most_; }
    uint64_t bytes() const;
    // Null if it is not there.
    content get(const std::string& digest);
    // Throws card_model::error if the digest is of other content: clients share what is kept.
    void put(const std::string& digest, const void* bytes, size_t count);

private:
    struct entry {
        content bytes;
        std::list<std::string>::iterator place;
    };

    const uint64_t most_;
    mutable std::mutex mutex_;
    std::list<std::string> order_;  // the least recently used one first
    std::map<std::string, entry> known_;
    uint64_t bytes_ = 0;
};

}  // namespace card_server
