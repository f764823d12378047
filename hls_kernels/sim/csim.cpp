// Part of the program of `xclbin-build csim`: an exception that nobody catches, such as a deadlock, ends it with a sentence.
#include <cstdio>
#include <cstdlib>
#include <exception>

namespace {

[[noreturn]] void tell() {
    std::fflush(stdout);
    if (const std::exception_ptr thrown = std::current_exception()) {
        try {
            std::rethrow_exception(thrown);
        } catch (const std::exception& why) {
            std::fprintf(stderr, "xclbin-build csim: %s\n", why.what());
        } catch (...) {
            std::fprintf(stderr, "xclbin-build csim: an exception that is no std::exception\n");
        }
    } else {
        std::fprintf(stderr, "xclbin-build csim: std::terminate was called\n");
    }
    std::_Exit(1);
}

[[maybe_unused]] const std::terminate_handler before = std::set_terminate(tell);

}  // namespace
