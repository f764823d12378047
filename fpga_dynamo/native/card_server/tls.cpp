// TLS by OpenSSL, where the program was built with it (FD_WITH_TLS).
#include "connection.hpp"

#ifdef FD_WITH_TLS
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <climits>
#endif

namespace card_server {

#ifdef FD_WITH_TLS

namespace {

std::string reason() {
    const unsigned long code = ERR_get_error();
    ERR_clear_error();
    const char* text = code ? ERR_reason_error_string(code) : nullptr;
    return text ? text : "the connection ended";
}

class context : public tls_context {
public:
    context() : object(SSL_CTX_new(TLS_server_method())) {
        if (!object) throw std::runtime_error("TLS cannot be used: " + reason());
        SSL_CTX_set_min_proto_version(object, TLS1_2_VERSION);
        SSL_CTX_set_mode(object, SSL_MODE_AUTO_RETRY);
        // Nobody is asked for the password of a key.
        SSL_CTX_set_default_passwd_cb(object, [](char*, int, int, void*) { return 0; });
    }
    ~context() override { SSL_CTX_free(object); }

    SSL_CTX* const object;
};

class openssl_session : public tls_session {
public:
    openssl_session(const context& of, int socket) : ssl_(SSL_new(of.object)) {
        if (!ssl_ || SSL_set_fd(ssl_, socket) != 1 || SSL_accept(ssl_) != 1) {
            const std::string why = reason();
            SSL_free(ssl_);
            throw frame_error("TLS failed: " + why);
        }
    }
    ~openssl_session() override { SSL_free(ssl_); }

    void send(const void* bytes, size_t count) override {
        const auto* at = static_cast<const char*>(bytes);
        while (count) {
            const int sent = SSL_write(ssl_, at, static_cast<int>(std::min<size_t>(count, INT_MAX)));
            if (sent <= 0) throw frame_error("TLS failed: " + reason());
            at += sent;
            count -= static_cast<size_t>(sent);
        }
    }
    size_t receive(void* bytes, size_t most) override {
        const int got = SSL_read(ssl_, bytes, static_cast<int>(std::min<size_t>(most, INT_MAX)));
        if (got > 0) return static_cast<size_t>(got);
        if (SSL_get_error(ssl_, got) == SSL_ERROR_ZERO_RETURN) return 0;
        throw frame_error("TLS failed: " + reason());
    }

private:
    SSL* const ssl_;
};

}  // namespace

bool has_tls() { return true; }

std::shared_ptr<const tls_context> read_certificate(const std::string& certificate, const std::string& key) {
    const auto made = std::make_shared<context>();
    const std::string& of_key = key.empty() ? certificate : key;
    if (SSL_CTX_use_certificate_chain_file(made->object, certificate.c_str()) != 1 ||
        SSL_CTX_use_PrivateKey_file(made->object, of_key.c_str(), SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(made->object) != 1)
        throw std::runtime_error("--tls-cert " + certificate + ": " + reason());
    return made;
}

std::unique_ptr<tls_session> accept_tls(const tls_context& of, int socket) {
    return std::make_unique<openssl_session>(static_cast<const context&>(of), socket);
}

#else

bool has_tls() { return false; }

std::shared_ptr<const tls_context> read_certificate(const std::string&, const std::string&) {
    throw std::runtime_error(
        "this program was built without OpenSSL, so it has no TLS: build it with -DFD_TLS=ON, or listen on 127.0.0.1 "
        "and put stunnel or an SSH tunnel in front");
}

std::unique_ptr<tls_session> accept_tls(const tls_context&, int) { throw frame_error("TLS is not built in"); }

#endif

}  // namespace card_server
