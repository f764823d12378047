#include "exceptions.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <typeinfo>

namespace card_model {

std::string describe_exception() {
    const std::type_info* type = abi::__cxa_current_exception_type();
    if (!type) return std::current_exception() ? "an exception of another language" : "";
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(type->name(), nullptr, nullptr, &status),
                                                           &std::free);
    std::string text = name ? name.get() : type->name();
    try {
        throw;
    } catch (const std::exception& thrown) {
        if (const std::string what = thrown.what(); what != text) text += ": " + what;
    } catch (...) {}
    return text;
}

exception_state* exceptions_of_this_thread() { return reinterpret_cast<exception_state*>(abi::__cxa_get_globals()); }

}  // namespace card_model
