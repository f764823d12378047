// Exceptions that kernel code throws: what they say, and the C++ runtime's record of them.
#pragma once
#include <string>

namespace card_model {

// The exception that is being handled: "std::runtime_error: its what()", or its type alone; empty without an exception.
std::string describe_exception();

// A thread's exceptions that are being handled and how many are on their way to a handler: __cxa_eh_globals of the
// Itanium C++ ABI. A jump out of a handler must put it back, or the thread counts as handling that exception forever.
struct exception_state {
    void* handled = nullptr;
    unsigned int thrown = 0;
};
exception_state* exceptions_of_this_thread();

}  // namespace card_model
