#include "server.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "digest.hpp"
#include "error.hpp"
#include "json_text.hpp"

namespace card_server {

using namespace card_protocol;
using card_model::json::value;

namespace {

constexpr int LOOK_MS = 500;  // after this time the end of a connection is noticed while its request is under way
constexpr auto PATIENCE = std::chrono::seconds(10);
constexpr size_t SHARED_BYTES = 1 << 20;  // of the memory for payloads that a connection keeps

// Somebody may not have a session; the sentence is for him.
class refused : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

void warn(const std::string& sentence) { std::fprintf(stderr, "%s\n", sentence.c_str()); }

std::string failure(const char* kind, const std::string& sentence) {
    return json_object().text("error", kind).text("text", sentence).str();
}

const std::string* text_of(const value& head, const char* name) {
    const value* found = head.find(name);
    return found && found->kind() == value::type::string ? &found->as_string(name) : nullptr;
}

// A head of a client who has not proved the token yet.
value greeting(connection& one, const char* expected) {
    uint64_t payload = 0;
    const std::string text = one.receive_head(MOST_GREETING, 0, payload);
    try {
        value head = card_model::json::parse(text);
        if (head.kind() == value::type::object)
            if (const std::string* name = text_of(head, "op"); name && *name == expected) return head;
    } catch (const card_model::error&) {
        throw frame_error("the head of a frame is no JSON");
    }
    throw frame_error("the client sent another request where '" + std::string(expected) + "' was expected");
}

bool is_nonce(const std::string* given) {
    return given && given->size() == 2 * NONCE_BYTES &&
           std::all_of(given->begin(), given->end(), [](char c) { return c >= ' ' && c <= '~'; });
}

void check_version(const value& hello) {
    const value* given = hello.find("protocol");
    uint64_t theirs = 0;
    const bool is_number = given && whole(*given, UINT64_MAX, theirs);
    if (is_number && theirs == VERSION) return;
    std::string shown = "unknown";
    if (given && given->kind() == value::type::number) shown = given->as_written("").substr(0, 20);
    throw refused("the server speaks version " + std::to_string(VERSION) + " of the protocol, and the client version " +
                  shown + "; update fpga_dynamo at the " + (is_number && theirs > VERSION ? "server" : "client"));
}

}  // namespace

void server::serve(int listener, const std::atomic<bool>& stop) {
    threads_ = 1;
    std::thread([this, &stop] { watch(stop); }).detach();
    while (!stop) {
        pollfd news{listener, POLLIN, 0};
        if (poll(&news, 1, LOOK_MS) <= 0) continue;
        const int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        if (socket < 0) {  // of descriptors there may be none for a while
            if (errno != EINTR && errno != ECONNABORTED)
                std::this_thread::sleep_for(std::chrono::milliseconds(LOOK_MS));
            continue;
        }
        const auto made = std::make_shared<connection>(socket);
        std::lock_guard lock(mutex_);
        if (connections_.size() >= MOST_CONNECTIONS) continue;
        try {
            std::thread([this, made] { attend(made); }).detach();
        } catch (const std::system_error& reason) {
            warn("a connection was not accepted: " + std::string(reason.what()));
            continue;
        }
        connections_.insert(made);
        ++threads_;
    }
    // Until all threads have ended: they use this object. A card that cannot end a run keeps its thread for ever.
    for (const auto end = std::chrono::steady_clock::now() + PATIENCE;;) {
        if (std::chrono::steady_clock::now() > end) std::_Exit(0);
        std::vector<std::shared_ptr<client>> known;
        {
            std::lock_guard lock(mutex_);
            if (threads_ == 0) break;
            for (const auto& one : connections_) one->shut();
            for (const auto& [name, one] : clients_) known.push_back(one);
            known.insert(known.end(), leaving_.begin(), leaving_.end());
        }
        for (const auto& one : known) one->own.close();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

void server::attend(const std::shared_ptr<connection>& one) {
    std::shared_ptr<client> asker;
    try {
        one->set_timeout(GREETING_SECONDS);
        one->prepare();
        if (tls_) one->encrypt(*tls_);
        asker = greet(*one);
        one->set_timeout(0);
        answer_all(*one, *asker);
    } catch (const refused& why) {
        warn("a client was refused: " + std::string(why.what()));
        try {
            one->send(failure(DEVICE_ERROR, why.what()));
        } catch (const frame_error&) {  // he has gone already
        }
    } catch (const frame_error&) {  // the client has gone, or was none
    } catch (const std::exception& fault) {
        warn("a connection ended by a fault of the server: " + std::string(fault.what()));
    }
    if (asker) leave(asker, one.get());
    asker.reset();
    one->shut();
    std::lock_guard lock(mutex_);
    connections_.erase(one);
    --threads_;
}

std::shared_ptr<server::client> server::greet(connection& one) {
    const value hello = greeting(one, "hello");
    check_version(hello);
    const std::string* theirs = text_of(hello, "nonce");
    if (!is_nonce(theirs)) throw refused("the greeting has no random number");
    const std::string ours = random_text(NONCE_BYTES);
    one.send(json_object().text("nonce", ours).str());
    const value proved = greeting(one, "prove");
    const std::string* given = text_of(proved, "proof");
    if (!given || !same_text(*given, proof(token_, "client", *theirs, ours)))
        throw refused("the token is wrong: both ends need a token file with the same content");
    const value* wanted = hello.find("session");
    std::string name = wanted && wanted->kind() == value::type::string ? wanted->as_string("") : "";
    const auto asker = enter(one, name);
    json_object answer;
    answer.text("proof", proof(token_, "server", *theirs, ours)).text("session", name);
    answer.number("devices", cards_.count()).flag("contexts", cards_.driver->has_contexts());
    const auto* own = cards_.offered.get();
    answer.raw("offer", own ? json_array().add(quoted(own->digest)).add(std::to_string(own->bytes.size())).str()
                            : std::string("null"));
    answer.text("description", "driver " + std::string(cards_.driver->name()));
    try {
        one.send(answer.str());
    } catch (const frame_error&) {
        leave(asker, &one);
        throw;
    }
    return asker;
}

// The client of a session, a new one for "", and then its name.
std::shared_ptr<server::client> server::enter(connection& one, std::string& name) {
    std::lock_guard lock(mutex_);
    std::shared_ptr<client> asker;
    if (!name.empty()) {
        const auto found = clients_.find(name);
        if (found == clients_.end()) throw refused("the session has ended; open the card again");
        asker = found->second;
        if (asker->connections.size() >= MOST_OF_SESSION)
            throw refused("a client has at most " + std::to_string(MOST_OF_SESSION) + " connections");
    } else {
        if (clients_.size() >= cards_.most.clients)
            throw refused("the server is full: it has " + std::to_string(clients_.size()) +
                          " client(s), the most that it was started for (--clients)");
        name = random_text(16);
        asker = clients_[name] = std::make_shared<client>(cards_);
    }
    asker->connections.insert(&one);
    return asker;
}

// A session ends with the first of its connections that does.
void server::leave(const std::shared_ptr<client>& one, connection* ended) {
    {
        std::lock_guard lock(mutex_);
        for (auto at = clients_.begin(); at != clients_.end();)
            at = at->second == one ? clients_.erase(at) : std::next(at);
        one->connections.erase(ended);
        for (connection* other : one->connections) other->shut();
        leaving_.push_back(one);
    }
    one->own.close();
}

void server::answer_all(connection& one, client& asker) {
    const memory_block shared(SHARED_BYTES);
    for (;;) {
        uint64_t bytes = 0;
        const std::string head = one.receive_head(MOST_HEAD, MOST_PAYLOAD, bytes);
        view payload{shared.data(), bytes};
        if (bytes > SHARED_BYTES) {
            const auto own = std::make_shared<memory_block>(bytes);
            payload = {own->data(), bytes, own};
        }
        one.receive(const_cast<uint8_t*>(payload.data), bytes);
        const answer result = answer_one(head, payload, asker);
        one.send(result.head, result.payload);
    }
}

answer server::answer_one(const std::string& text, const view& payload, client& asker) {
    try {
        const value head = card_model::json::parse(text);
        const std::string* name = head.kind() == value::type::object ? text_of(head, "op") : nullptr;
        if (name && *name == "status") return {status()};
        if (head.kind() != value::type::object) throw card_model::error("the head of a frame is no JSON object");
        return asker.own.request(head, payload);
    } catch (const card_model::out_of_memory& why) {
        return {failure(MEMORY_ERROR, why.what())};
    } catch (const card_model::xclbin_error& why) {
        return {failure(XCLBIN_ERROR, why.what())};
    } catch (const card_model::error& why) {
        return {failure(DEVICE_ERROR, why.what())};
    } catch (const std::bad_alloc&) {
        return {failure(DEVICE_ERROR, "there is no memory left")};
    } catch (const std::exception& fault) {  // of whatever kind: it is an answer to this client, and nobody else's
        warn("a request ended by a fault of the server: " + std::string(fault.what()));
        return {failure(INTERNAL_ERROR, "the server failed")};
    }
}

std::string server::status() {
    std::vector<std::shared_ptr<client>> known;
    {
        std::lock_guard lock(mutex_);
        for (const auto& [name, one] : clients_) known.push_back(one);
    }
    uint64_t buffers = 0;
    for (const auto& one : known) buffers += one->own.buffers();
    return json_object()
        .number("clients", known.size())
        .number("buffers", buffers)
        .number("bytes", cards_.used())
        .number("kept_bytes", cards_.kept.bytes())
        .str();
}

void server::watch(const std::atomic<bool>& stop) {
    while (!stop) {
        look();
        std::this_thread::sleep_for(std::chrono::milliseconds(LOOK_MS));
    }
    std::lock_guard lock(mutex_);
    --threads_;
}

// Closes sessions whose client has gone while one of their requests is under way, and ends what they left.
void server::look() {
    std::vector<pollfd> descriptors;
    std::vector<std::pair<std::shared_ptr<client>, connection*>> owners;
    std::vector<std::shared_ptr<client>> leaving;
    {
        std::lock_guard lock(mutex_);
        for (const auto& [name, one] : clients_)
            for (connection* of : one->connections) {
                descriptors.push_back({of->descriptor(), POLLRDHUP, 0});
                owners.emplace_back(one, of);
            }
        leaving.swap(leaving_);
    }
    poll(descriptors.data(), descriptors.size(), 0);
    for (size_t i = 0; i < descriptors.size(); ++i)
        if (descriptors[i].revents) leave(owners[i].first, nullptr);
    leaving.erase(std::remove_if(leaving.begin(), leaving.end(), [](const auto& one) { return !one->own.end_runs(); }),
                  leaving.end());
    std::lock_guard lock(mutex_);
    leaving_.insert(leaving_.end(), leaving.begin(), leaving.end());
}

}  // namespace card_server
