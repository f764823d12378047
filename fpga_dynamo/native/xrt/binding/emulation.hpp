// What the stock sw_emu driver needs around it when the card is a process (see ../model): its traps, and what XRT's
// protocol with that process has no words for. With every other driver these do nothing.
#pragma once
#include <ert.h>
#include <xrt.h>

#include <optional>
#include <string>

// Around the first use of a card that is a process; `handle` is XRT's of the card.
class sw_emu_guard {
  public:
    explicit sw_emu_guard(void* handle);
    ~sw_emu_guard();
    sw_emu_guard(const sw_emu_guard&) = delete;
    sw_emu_guard& operator=(const sw_emu_guard&) = delete;

  private:
    struct saved;
    saved* saved_ = nullptr;
};

struct model_failure {
    ert_cmd_state state;
    std::string sentence;
};

bool is_stock_sw_emu();
void before_start(const ert_packet* packet);
bool cancel_in_model(const ert_packet* packet);  // false: the card is no such process
std::optional<model_failure> failure_in_model(const ert_packet* packet);
