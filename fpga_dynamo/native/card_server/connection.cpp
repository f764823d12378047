#include "connection.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "protocol.hpp"

namespace card_server {

namespace {

constexpr size_t JOINED_BYTES = 1 << 16;  // up to which a frame is one write

void set(int socket, int level, int name, int value) { setsockopt(socket, level, name, &value, sizeof value); }

template <typename Number>
void append(std::string& text, Number number) {
    for (size_t i = 0; i < sizeof number; ++i) text += static_cast<char>(number >> (8 * i) & 0xff);
}

template <typename Number>
Number number_at(const uint8_t* bytes) {
    Number result = 0;
    for (size_t i = 0; i < sizeof result; ++i) result |= static_cast<Number>(static_cast<Number>(bytes[i]) << (8 * i));
    return result;
}

[[noreturn]] void fail() {
    if (errno == EAGAIN || errno == EWOULDBLOCK) throw frame_error("the peer did not answer in time");
    throw frame_error(std::strerror(errno));
}

}  // namespace

connection::~connection() {
    tls_.reset();
    close(socket_);
}

void connection::prepare() {
    using namespace card_protocol;
    set(socket_, IPPROTO_TCP, TCP_NODELAY, 1);
    set(socket_, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(socket_, IPPROTO_TCP, TCP_KEEPIDLE, QUIET_SECONDS);
    set(socket_, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_SECONDS);
    set(socket_, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
    set(socket_, IPPROTO_TCP, TCP_USER_TIMEOUT, 1000 * (QUIET_SECONDS + PROBES * PROBE_SECONDS));
}

void connection::set_timeout(unsigned seconds) {
    const timeval time{static_cast<time_t>(seconds), 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

void connection::shut() { shutdown(socket_, SHUT_RDWR); }

void connection::send_bytes(const void* bytes, size_t count) {
    if (tls_) return tls_->send(bytes, count);
    const auto* at = static_cast<const char*>(bytes);
    while (count) {
        const ssize_t sent = ::send(socket_, at, count, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) fail();
        at += sent;
        count -= static_cast<size_t>(sent);
    }
}

void connection::send(const std::string& head, const std::vector<view>& payload) {
    uint64_t bytes = 0;
    for (const view& piece : payload) bytes += piece.bytes;
    std::string begin(card_protocol::MAGIC, card_protocol::MAGIC_BYTES);
    append(begin, static_cast<uint32_t>(head.size()));
    append(begin, bytes);
    begin += head;
    const bool joined = bytes <= JOINED_BYTES;
    if (joined)
        for (const view& piece : payload) begin.append(reinterpret_cast<const char*>(piece.data), piece.bytes);
    send_bytes(begin.data(), begin.size());
    if (joined) return;
    for (const view& piece : payload) send_bytes(piece.data, piece.bytes);
}

void connection::receive(void* bytes, size_t count) {
    auto* at = static_cast<char*>(bytes);
    while (count) {
        size_t received = 0;
        if (tls_) {
            received = tls_->receive(at, count);
        } else {
            const ssize_t got = recv(socket_, at, count, 0);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) fail();
            received = static_cast<size_t>(got);
        }
        if (received == 0) throw frame_error("the peer closed the connection");
        at += received;
        count -= received;
    }
}

std::string connection::receive_head(uint32_t most_head, uint64_t most_payload, uint64_t& payload_bytes) {
    using namespace card_protocol;
    uint8_t prefix[PREFIX_BYTES];
    receive(prefix, sizeof prefix);
    if (std::memcmp(prefix, MAGIC, MAGIC_BYTES) != 0)
        throw frame_error("the peer does not speak the protocol of a card server");
    const auto head_bytes = number_at<uint32_t>(prefix + MAGIC_BYTES);
    payload_bytes = number_at<uint64_t>(prefix + MAGIC_BYTES + sizeof head_bytes);
    if (head_bytes > most_head || payload_bytes > most_payload)
        throw frame_error("a frame has a head of " + std::to_string(head_bytes) + " and a payload of " +
                          std::to_string(payload_bytes) + " bytes, of at most " + std::to_string(most_head) + " and " +
                          std::to_string(most_payload));
    std::string head(head_bytes, '\0');
    receive(head.data(), head.size());
    return head;
}

}  // namespace card_server
