#include "emulation.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "checked.hpp"
#include "relay.hpp"
#include "status_page.hpp"

using xrt_model::status_page;

namespace {

constexpr int REPLACED[] = {SIGSEGV, SIGFPE, SIGABRT, SIGUSR1, SIGCHLD};
constexpr size_t LARGEST_MESSAGE = (size_t{8} << 20) + 4096;  // the driver's packets of 8 MiB, and fields around them

constexpr const char* SINGLE_MAPPING = "VITIS_SW_EMU_ENABLE_SINGLE_MMAP";

std::atomic<bool> lost{false};

using alloc_void = size_t (*)(void*, size_t);
alloc_void allocator_of_driver() {
    return reinterpret_cast<alloc_void>(dlsym(RTLD_DEFAULT, "_ZN12xclcpuemhal29CpuemShim10alloc_voidEm"));
}

status_page* status() {
    static status_page* const only = []() -> status_page* {
        const char* path = std::getenv(xrt_model::STATUS_VARIABLE);
        const int file = path && is_stock_sw_emu() ? open(path, O_RDWR | O_CLOEXEC) : -1;
        if (file < 0) return nullptr;
        void* page = mmap(nullptr, sizeof(status_page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        return page == MAP_FAILED ? nullptr : static_cast<status_page*>(page);
    }();
    return only;
}

// Where the run's number is in its command: the register map follows the masks.
uint32_t* number_of(const ert_packet* packet) {
    auto* start = reinterpret_cast<ert_start_kernel_cmd*>(const_cast<ert_packet*>(packet));
    return start->data + start->extra_cu_masks + xrt_model::RUN_NUMBER_REGISTER / 4;
}

}  // namespace

keep_signal_handlers::keep_signal_handlers() {
    for (const int signal : REPLACED) {
        before_.emplace_back();
        sigaction(signal, nullptr, &before_.back());
    }
}

keep_signal_handlers::~keep_signal_handlers() {
    if (!is_stock_sw_emu()) return;
    for (size_t i = 0; i < before_.size(); ++i) sigaction(REPLACED[i], &before_[i], nullptr);
}

bool is_stock_sw_emu() {
    static std::atomic<bool> known{false};  // only a yes is final: the driver comes with the first card
    if (!known.load(std::memory_order_relaxed) && allocator_of_driver()) known.store(true);
    return known.load(std::memory_order_relaxed);
}

void enlarge_message_buffer(void* handle) {
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    const alloc_void allocate = allocator_of_driver();
    if (!allocate || !handle) return;
    // Buffer and size lie side by side in an object whose layout no header tells: those are the words that a call
    // changes, and the one behind it that is still 0. The caller is the one who writes the size.
    const size_t words = malloc_usable_size(handle) / sizeof(uint64_t);
    auto* object = static_cast<uint64_t*>(handle);
    const std::vector<uint64_t> before(object, object + words);
    allocate(handle, LARGEST_MESSAGE);
    for (size_t i = 0; i + 1 < words; ++i)
        if (object[i] != before[i] && before[i] == 0 && object[i + 1] == 0) {
            object[i + 1] = LARGEST_MESSAGE;
            return;
        }
}

void watch_model() {
    static std::once_flag once;
    std::call_once(once, [] {
        const status_page* page = status();
        const pid_t model = page ? page->model.load() : 0;
        if (model == 0) return;
        // The driver's threads go on while static objects that they use are destroyed.
        on_exit(
            [](int code, void*) {
                std::fflush(nullptr);
                _exit(code);
            },
            nullptr);
        relay_to_model(model, [] { lost.store(true); });
    });
}

forget_mappings::forget_mappings(bool wanted) : wanted_(wanted && is_stock_sw_emu()) {
    if (wanted_) setenv(SINGLE_MAPPING, "1", 1);
}

forget_mappings::~forget_mappings() {
    if (wanted_) unsetenv(SINGLE_MAPPING);
}

close_descriptor::close_descriptor() {
    if (!is_stock_sw_emu()) return;
    static std::mutex one_by_one;
    lock_ = std::unique_lock(one_by_one);
    next_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (next_ >= 0) close(next_);
}

close_descriptor::~close_descriptor() {
    if (next_ < 0) return;
    // Another thread may have got that number, which the name tells.
    char name[64];
    const std::string link = "/proc/self/fd/" + std::to_string(next_);
    const ssize_t length = readlink(link.c_str(), name, sizeof name);
    const std::string expected = std::string("/memfd:") + xrt_model::BUFFER_FILE;
    if (length > 0 && std::string(name, static_cast<size_t>(length)).rfind(expected, 0) == 0) close(next_);
}

std::string loss_of_card() {
    return lost.load(std::memory_order_relaxed)
               ? "the process that emulates the card under XRT's sw_emu has ended or was "
                 "killed; XRT cannot start another in "
                 "this process: start the program again"
               : "";
}

void number_run(ert_packet* packet) {
    static std::atomic<uint32_t> runs{0};
    if (status()) *number_of(packet) = ++runs;
}

bool cancel_in_model(const ert_packet* packet) {
    status_page* page = status();
    if (!page) return false;
    page->cancelled_run.store(*number_of(packet));
    page->cancellations.fetch_add(1);
    syscall(SYS_futex, &page->cancellations, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    return true;
}

std::optional<model_failure> failure_in_model(const ert_packet* packet) {
    const status_page* page = is_stock_sw_emu() ? status() : nullptr;
    if (!page) return std::nullopt;
    const uint32_t run = *number_of(packet);
    const xrt_model::failure& entry = page->failures[run % status_page::FAILURES];
    if (run == 0 || entry.run.load(std::memory_order_acquire) != run) return std::nullopt;
    return model_failure{static_cast<ert_cmd_state>(entry.state), entry.sentence};
}
