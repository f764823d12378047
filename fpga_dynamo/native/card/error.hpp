// What the emulator throws. Every message is one sentence that names what is wrong and, if possible, the remedy.
#pragma once
#include <stdexcept>
#include <string>

namespace card_model {

class error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// The file is no xclbin, or none that this card can run.
class xclbin_error : public error {
public:
    using error::error;
};

// A bank has no room left for a buffer.
class out_of_memory : public error {
public:
    using error::error;
};

// A run ended in a state other than COMPLETED (only wait2 throws it; wait returns the state).
class command_error : public error {
public:
    using error::error;
};

std::string hex(unsigned long long value);
// "system call: reason" for the current errno.
std::string system_reason(const char* what);

}  // namespace card_model
