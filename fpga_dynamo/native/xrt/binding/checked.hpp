// Calls of XRT: with its exceptions as ours, and from Python without the GIL.
#pragma once
#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include "error.hpp"
#include "interpreter.hpp"
#include "process.hpp"

using device_error = card_model::error;
using memory_error = card_model::out_of_memory;
using card_model::xclbin_error;

// The sentence that the in-process card has for its last failure on this thread; empty with any other driver of XRT's.
std::string driver_sentence();
// Why the card can no longer be used; empty while it can. Looked at around every call.
std::string loss_of_card();
// The exception under way, as one of the above. `what` was being done.
[[noreturn]] void rethrow(const std::string& what);

inline void check_card() {
    card_model::check_process();
    if (std::string lost = loss_of_card(); !lost.empty()) throw device_error(lost);
}

// Its exceptions become ours. `what` is only made into text if the call fails.
template <typename What, typename Call>
auto translated(What&& what, Call&& call) -> decltype(call()) {
    check_card();
    try {
        if constexpr (std::is_void_v<decltype(call())>) {
            call();
            check_card();
        } else {
            auto result = call();
            check_card();
            return result;
        }
    } catch (const device_error&) {
        throw;
    } catch (...) {
        check_card();
        rethrow(what());
    }
}

// The same from a thread that has the GIL, and without it.
template <typename What, typename Call>
auto checked(What&& what, Call&& call) -> decltype(call()) {
    const without_gil release;
    return translated(std::forward<What>(what), std::forward<Call>(call));
}
