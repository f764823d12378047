#include "emulation.hpp"

#include "checked.hpp"

std::string loss_of_card() { return ""; }
struct sw_emu_guard::saved {};
sw_emu_guard::sw_emu_guard(void*) {}
sw_emu_guard::~sw_emu_guard() {}
void before_start(const ert_packet*) {}
bool cancel_in_model(const ert_packet*) { return false; }
std::optional<model_failure> failure_in_model(const ert_packet*) { return std::nullopt; }
bool is_stock_sw_emu() { return false; }
