// A connection, plain or with TLS, and the frames on it.
#pragma once
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "session.hpp"

namespace card_server {

// What came is no frame, or the peer has closed the connection.
class frame_error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// Certificate and private key of a server.
class tls_context {
public:
    virtual ~tls_context() = default;
};
bool has_tls();  // whether this program was built with OpenSSL
// key: "" if the certificate's file has it. Throws std::runtime_error, with a sentence.
std::shared_ptr<const tls_context> read_certificate(const std::string& certificate, const std::string& key);

// The encrypted side of a connection. Both members throw frame_error.
class tls_session {
public:
    virtual ~tls_session() = default;
    virtual void send(const void* bytes, size_t count) = 0;
    virtual size_t receive(void* bytes, size_t most) = 0;  // 0: the peer has closed
};
// The server's side of a handshake on a socket.
std::unique_ptr<tls_session> accept_tls(const tls_context& context, int socket);

class connection {
public:
    explicit connection(int socket) : socket_(socket) {}  // which it owns
    ~connection();
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;

    int descriptor() const { return socket_; }
    // No delay of small frames, and an end to connections whose peer has vanished.
    void prepare();
    void encrypt(const tls_context& context) { tls_ = accept_tls(context, socket_); }
    // Of each send and receive; 0: none.
    void set_timeout(unsigned seconds);
    // Ends it under the hands of the thread that waits for it.
    void shut();

    // All throw frame_error.
    void send(const std::string& head, const std::vector<view>& payload = {});
    // The next frame's head, and the bytes of the payload that follows.
    std::string receive_head(uint32_t most_head, uint64_t most_payload, uint64_t& payload_bytes);
    void receive(void* bytes, size_t count);

private:
    void send_bytes(const void* bytes, size_t count);

    const int socket_;
    std::unique_ptr<tls_session> tls_;
};

}  // namespace card_server
