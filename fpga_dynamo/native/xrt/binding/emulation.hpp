// What the stock sw_emu driver needs around it when the card is a process (see ../model): its traps, and what XRT's
// protocol with that process has no words for. With every other driver of XRT's these do nothing.
#pragma once
#include <ert.h>

#include <csignal>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

// The driver replaces signal handlers when it starts its process, by such that end the whole process group.
class keep_signal_handlers {
public:
    keep_signal_handlers();
    ~keep_signal_handlers();
    keep_signal_handlers(const keep_signal_handlers&) = delete;
    keep_signal_handlers& operator=(const keep_signal_handlers&) = delete;

private:
    std::vector<struct sigaction> before_;
};

bool is_stock_sw_emu();  // known once a card has been opened
// Debian's build of the driver drops the result of a realloc, so a buffer that grows is used after it has been freed:
// makes it large enough, once, before the first message. `handle` is XRT's of the card.
void enlarge_message_buffer(void* handle);
// Once a card has been loaded and before its first run: has an end of its process noticed.
void watch_model();

// While an xclbin takes another's place. The driver unmaps there whatever it has ever mapped, even if the address
// range has another owner now: with this variable of its own set it forgets about it.
class forget_mappings {
public:
    explicit forget_mappings(bool wanted);
    ~forget_mappings();
    forget_mappings(const forget_mappings&) = delete;
    forget_mappings& operator=(const forget_mappings&) = delete;

private:
    const bool wanted_;
};

// While a buffer is made and mapped. The driver opens its file, maps it, and keeps the descriptor forever though it uses it
// no more: it is closed behind it.
class close_descriptor {
public:
    close_descriptor();
    ~close_descriptor();
    close_descriptor(const close_descriptor&) = delete;
    close_descriptor& operator=(const close_descriptor&) = delete;

private:
    std::unique_lock<std::mutex> lock_;
    int next_ = -1;  // the descriptor that the next file to be opened gets
};

struct model_failure {
    ert_cmd_state state;
    std::string sentence;
};

void number_run(ert_packet* packet);             // before each start
bool cancel_in_model(const ert_packet* packet);  // false: the card is no such process
std::optional<model_failure> failure_in_model(const ert_packet* packet);
