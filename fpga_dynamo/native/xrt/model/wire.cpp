#include "wire.hpp"

#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace xrt_model {

namespace {

constexpr size_t CALL_HEADER = 14;  // 0x09, size in 64 bits, 0x15, call in 32 bits
constexpr size_t REPLY_HEADER = 9;  // 0x09, size in 64 bits
constexpr uint64_t LARGEST_CALL = uint64_t{1} << 30;
enum wire_type : uint32_t { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

class cursor {
public:
    explicit cursor(std::string_view text) : text_(text) {}
    bool done() const { return text_.empty(); }
    uint64_t varint() {
        uint64_t value = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            const auto byte = static_cast<uint8_t>(take(1)[0]);
            value |= uint64_t{byte & 0x7fu} << shift;
            if (!(byte & 0x80)) return value;
        }
        throw std::runtime_error("a number is not terminated");
    }
    template <typename T>
    T fixed() {
        T value;
        const std::string_view bytes = take(sizeof value);
        std::memcpy(&value, bytes.data(), bytes.size());
        return value;
    }
    std::string_view take(uint64_t bytes) {
        if (bytes > text_.size()) throw std::runtime_error("a message is cut off");
        const std::string_view part = text_.substr(0, bytes);
        text_.remove_prefix(bytes);
        return part;
    }

private:
    std::string_view text_;
};

// As the driver builds it (unix_socket of XRT).
std::string socket_path() {
    const char *user = std::getenv("USER"), *id = std::getenv("EMULATION_SOCKETID");
    return user ? std::string("/tmp/") + user + "/" + (id ? id : "xcl_sock") : "/tmp/xcl_sock";
}

}  // namespace

message::message(std::string_view bytes) {
    cursor rest(bytes);
    while (!rest.done()) {
        const uint64_t tag = rest.varint();
        const auto field = static_cast<uint32_t>(tag >> 3);
        switch (tag & 7) {
            case VARINT: numbers_[field] = rest.varint(); break;
            case FIXED64: numbers_[field] = rest.fixed<uint64_t>(); break;
            case FIXED32: numbers_[field] = rest.fixed<uint32_t>(); break;
            case BYTES: strings_[field] = rest.take(rest.varint()); break;
            default: throw std::runtime_error("a field has an unknown kind");
        }
    }
}

uint64_t message::number(uint32_t field) const {
    const auto found = numbers_.find(field);
    return found == numbers_.end() ? 0 : found->second;
}

std::string_view message::bytes(uint32_t field) const {
    const auto found = strings_.find(field);
    return found == strings_.end() ? std::string_view() : found->second;
}

void reply::varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
}

reply& reply::number(uint32_t field, uint64_t value) {
    varint(uint64_t{field} << 3 | VARINT);
    varint(value);
    return *this;
}

reply& reply::bytes(uint32_t field, std::string_view value) {
    varint(uint64_t{field} << 3 | BYTES);
    varint(value.size());
    text_ += value;
    return *this;
}

connection::connection() {
    const std::string path = socket_path();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (;;) {  // the driver listens only after it has started this process
        socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (socket_ >= 0 && ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) break;
        if (socket_ >= 0) ::close(socket_);
        if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("no process listens at " + path);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ::unlink(path.c_str());  // nobody else connects, and the host may end without tidying up
    const int bytes = 4 << 20;
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

connection::~connection() { ::close(socket_); }

bool connection::read_all(void* target, size_t bytes) const {
    auto* at = static_cast<char*>(target);
    while (bytes > 0) {
        const ssize_t count = ::read(socket_, at, bytes);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        at += count;
        bytes -= static_cast<size_t>(count);
    }
    return true;
}

bool connection::receive(uint32_t* api, std::string* body) {
    char header[CALL_HEADER];
    if (!read_all(header, sizeof header)) return false;
    uint64_t bytes = 0;
    std::memcpy(&bytes, header + 1, sizeof bytes);
    std::memcpy(api, header + 10, sizeof *api);
    if (header[0] != 0x09 || header[9] != 0x15 || bytes > LARGEST_CALL)
        throw std::runtime_error("a message header is not one of XRT 2.13");
    body->resize(bytes);
    return read_all(body->data(), bytes);
}

bool connection::send(const reply& answer) {
    char header[REPLY_HEADER] = {0x09};
    const uint64_t bytes = answer.text().size();
    std::memcpy(header + 1, &bytes, sizeof bytes);
    iovec parts[2] = {{header, sizeof header}, {const_cast<char*>(answer.text().data()), answer.text().size()}};
    for (iovec* part = parts; part != parts + 2;) {
        const ssize_t sent = ::writev(socket_, part, static_cast<int>(parts + 2 - part));
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return false;
        for (auto left = static_cast<size_t>(sent); part != parts + 2;) {
            const size_t done = std::min(left, part->iov_len);
            part->iov_base = static_cast<char*>(part->iov_base) + done;
            part->iov_len -= done;
            left -= done;
            if (part->iov_len > 0) break;
            ++part;
        }
    }
    return true;
}

}  // namespace xrt_model
