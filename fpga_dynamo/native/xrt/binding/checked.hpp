// Calls of XRT from Python: without the GIL, and with its exceptions as ours.
#pragma once
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "interpreter.hpp"

// The translator makes of them what fpga_dynamo.runtime.driver.xrt names so.
struct device_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};
struct memory_error : device_error {
    using device_error::device_error;
};
struct xclbin_error : device_error {
    using device_error::device_error;
};

// The sentence that the in-process card has for its last failure on this thread; empty with any other driver of XRT's.
std::string driver_sentence();
// Why the card can no longer be used; empty while it can. Looked at around every call.
std::string loss_of_card();
// The exception under way, as one of the above. `what` was being done.
[[noreturn]] void rethrow(const std::string& what);

inline void check_card() {
    if (std::string lost = loss_of_card(); !lost.empty()) throw device_error(lost);
}

// Without the GIL. `what` is only made into text if the call fails.
template <typename What, typename Call>
auto checked(What&& what, Call&& call) -> decltype(call()) {
    const without_gil release;
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
