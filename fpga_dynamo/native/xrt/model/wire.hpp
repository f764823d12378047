// The messages of XRT's sw_emu driver: Protocol Buffers with fields of two kinds, behind headers of fixed size.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace xrt_model {

// Numbers and byte strings by field number.
class message {
public:
    explicit message(std::string_view bytes);  // throws std::runtime_error if it is malformed
    uint64_t number(uint32_t field) const;     // 0 if it is missing
    std::string_view bytes(uint32_t field) const;

private:
    std::map<uint32_t, uint64_t> numbers_;
    std::map<uint32_t, std::string_view> strings_;
};

// Fields of a reply, appended in order.
class reply {
public:
    reply& number(uint32_t field, uint64_t value);
    reply& bytes(uint32_t field, std::string_view value);
    const std::string& text() const { return text_; }

private:
    void varint(uint64_t value);
    std::string text_;
};

// The connection to the host process.
class connection {
public:
    // Connects to the socket on which the driver listens. Throws std::runtime_error after half a minute.
    connection();
    ~connection();
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;

    // The next call; false when the host is gone.
    bool receive(uint32_t* api, std::string* body);
    // False when the host is gone: it need not wait for the answer to its last call.
    bool send(const reply& answer);

private:
    bool read_all(void* target, size_t bytes) const;
    int socket_ = -1;
};

}  // namespace xrt_model
