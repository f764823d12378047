// The server: connections, who may have one, and their ends.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cards.hpp"
#include "connection.hpp"
#include "session.hpp"

namespace card_server {

// Serves the cards to everybody with the token, until `stop` is set.
class server {
public:
    // tls: null for connections that others can read.
    server(cards& all, std::string token, std::shared_ptr<const tls_context> tls)
        : cards_(all), token_(std::move(token)), tls_(std::move(tls)) {}

    // Accepts connections of a listening socket, until `stop`.
    void serve(int listener, const std::atomic<bool>& stop);

private:
    struct client {
        explicit client(cards& all) : own(all) {}
        session own;
        std::set<connection*> connections;  // guarded by the server's mutex
    };

    void attend(const std::shared_ptr<connection>& one);
    std::shared_ptr<client> greet(connection& one);
    std::shared_ptr<client> enter(connection& one, std::string& name);
    void leave(const std::shared_ptr<client>& one, connection* ended);
    void answer_all(connection& one, client& asker);
    answer answer_one(const std::string& head, const view& payload, client& asker);
    std::string status();
    void watch(const std::atomic<bool>& stop);
    void look();

    cards& cards_;
    const std::string token_;
    const std::shared_ptr<const tls_context> tls_;
    std::mutex mutex_;  // of what follows
    std::map<std::string, std::shared_ptr<client>> clients_;
    std::set<std::shared_ptr<connection>> connections_;
    std::vector<std::shared_ptr<client>> leaving_;  // whose requests are still under way
    unsigned threads_ = 0;                          // that use this object
};

}  // namespace card_server
