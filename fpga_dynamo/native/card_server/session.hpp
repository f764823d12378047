// What one client has at the server, and the operations on it.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "cards.hpp"
#include "fields.hpp"
#include "json_text.hpp"
#include "served_run.hpp"

namespace card_server {

// Memory of a request's payload, or of an answer's. `owner` keeps it; null for memory that its connection keeps.
struct view {
    const uint8_t* data = nullptr;
    uint64_t bytes = 0;
    std::shared_ptr<const void> owner = nullptr;
};

// JSON, and the payload in pieces.
struct answer {
    std::string head = "{}";
    std::vector<view> payload = {};
};

// The devices, kernels, buffers and runs of one client. Its connections ask at the same time.
class session {
public:
    explicit session(cards& all) : cards_(all) {}
    ~session() { close(); }

    // Throws card_model::error, with a sentence, for what cannot be.
    answer request(const fields::value& head, const view& payload);
    // Ends runs that are under way, and gives everything back. May be called more than once.
    void close();
    // Of a closed session, whose last requests may have started runs since: ends those too. False once none is left.
    bool end_runs();
    size_t buffers();

private:
    struct device {
        uint64_t index;
        std::shared_ptr<served_card> card;
    };
    struct buffer {
        uint64_t bytes;
        std::shared_ptr<served_buffer> memory;
        void check(uint64_t count, uint64_t offset) const;
    };
    using object = std::variant<std::shared_ptr<device>, std::shared_ptr<served_kernel>, std::shared_ptr<buffer>,
                                std::shared_ptr<session_run>>;

    template <typename Object>
    std::shared_ptr<Object> find(const fields& given, const char* name);
    std::shared_ptr<device> device_of(const fields& given) { return find<device>(given, "device"); }
    std::shared_ptr<buffer> buffer_of(const fields& given, const char* name = "bo") {
        return find<buffer>(given, name);
    }
    void add(uint64_t number, object made);
    void free(const std::vector<uint64_t>& numbers);

    answer load(const fields& given);
    answer put(const fields& given, const view& payload);
    answer fetch(const fields& given);
    answer info(const fields& given);
    answer memory(const fields& given);
    answer allocate(const fields& given);
    answer write(const fields& given, const view& payload);
    answer place(const fields& given);
    answer read(const fields& given);
    answer copy(const fields& given);
    answer execute(const fields& given, const view& payload, bool waits);
    std::shared_ptr<session_run> made_run(const fields& given);
    void set_arguments(session_run& run, const fields& given);

    cards& cards_;
    std::atomic<bool> closed_{false};
    std::mutex mutex_;
    std::map<uint64_t, object> objects_;
    std::map<std::string, std::shared_ptr<memory_block>> uploads_;
    std::mutex ending_mutex_;
    std::vector<std::shared_ptr<session_run>> ending_;  // of a closed session
    std::atomic<unsigned> requests_{0};                 // under way
};

}  // namespace card_server
