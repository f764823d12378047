#include "runs.hpp"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "report.hpp"

// What the driver itself does.
extern "C" {
int xrt_xclExecBuf(xclDeviceHandle device, xclBufferHandle buffer);
void* xrt_xclMapBO(xclDeviceHandle device, xclBufferHandle buffer, bool write);
}

namespace sw_emu_driver {

using xrt_model::status_page;

namespace {

constexpr size_t COPY_BYTES = 8192;  // the largest command: its count of words has eleven bits
constexpr auto FIRST_PAUSE = std::chrono::microseconds(10), LONGEST_PAUSE = std::chrono::microseconds(200);

ert_cmd_state state_of(const ert_packet* packet) {
    return static_cast<ert_cmd_state>(__atomic_load_n(&packet->header, __ATOMIC_ACQUIRE) & 0xfu);
}

void set_state(ert_packet* packet, ert_cmd_state state) {
    const uint32_t header = packet->header;
    __atomic_store_n(&packet->header, (header & ~0xfu) | static_cast<uint32_t>(state), __ATOMIC_RELEASE);
}

// The page that this process shares with its device models, which find it by the variable.
status_page* make_status() {
    const int file = memfd_create("fpga-dynamo-status", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, sizeof(status_page)) != 0) return nullptr;
    void* page = mmap(nullptr, sizeof(status_page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) return nullptr;
    const std::string path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file);
    setenv(xrt_model::STATUS_VARIABLE, path.c_str(), 1);
    return static_cast<status_page*>(page);
}

}  // namespace

runs& runs::instance() {
    static runs& only = *new runs;
    return only;
}

runs::runs() : status_(make_status()) {
    sigset_t all, before;  // signals are for the program's threads
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this] { watch(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void runs::mapped(xclDeviceHandle device, unsigned buffer, void* memory) {
    std::lock_guard lock(mutex_);
    memory_[{device, buffer}] = static_cast<ert_packet*>(memory);
}

void runs::unmapped(xclDeviceHandle device, unsigned buffer) {
    std::lock_guard lock(mutex_);
    memory_.erase({device, buffer});
    for (run& each : running_)
        if (each.command == key{device, buffer}) each.packet = nullptr;
}

std::unique_lock<std::mutex> runs::announce_allocation(bool shared) {
    std::unique_lock lock(allocation_);
    if (status_) status_->shared_allocation.store(shared);
    return lock;
}

bool runs::take_copy(xclDeviceHandle device, copy* taken) {
    {
        std::lock_guard lock(mutex_);
        std::vector<copy>& unused = free_copies_[device];
        if (!unused.empty()) {
            *taken = unused.back();
            unused.pop_back();
            return true;
        }
    }
    const xclBufferHandle buffer = xclAllocBO(device, COPY_BYTES, 0, XCL_BO_FLAGS_EXECBUF);
    void* memory = buffer == XRT_NULL_BO ? nullptr : xrt_xclMapBO(device, buffer, true);
    *taken = {buffer, static_cast<ert_packet*>(memory)};
    return memory != nullptr;
}

int runs::submit(xclDeviceHandle device, unsigned buffer) {
    const key command{device, buffer};
    ert_packet* packet = nullptr;
    {
        std::lock_guard lock(mutex_);
        const auto found = memory_.find(command);
        if (found != memory_.end()) packet = found->second;
    }
    if (!packet) return -EINVAL;
    if (packet->opcode == ERT_ABORT) return abort(command, packet);
    copy of_driver{};
    if (!take_copy(device, &of_driver)) return -ENOMEM;
    std::memcpy(of_driver.packet, packet, (size_t{packet->count} + 1) * sizeof(uint32_t));
    {
        std::lock_guard lock(mutex_);
        const uint32_t number = ++last_number_ ? last_number_ : ++last_number_;
        auto* start = reinterpret_cast<ert_start_kernel_cmd*>(of_driver.packet);
        constexpr uint32_t WORD = xrt_model::RUN_NUMBER_REGISTER / 4;
        if (start->opcode == ERT_START_CU && start->count > 1 + start->extra_cu_masks + WORD)
            start->data[start->extra_cu_masks + WORD] = number;
        set_state(of_driver.packet, ERT_CMD_STATE_NEW);
        set_state(packet, ERT_CMD_STATE_RUNNING);
        running_.push_back({command, packet, of_driver, number});
    }
    const int code = xrt_xclExecBuf(device, of_driver.buffer);
    if (code) {  // the copy is not used again: the driver may have queued it
        std::lock_guard lock(mutex_);
        running_.erase(std::remove_if(running_.begin(), running_.end(),
                                      [&](const run& each) { return each.of_driver.buffer == of_driver.buffer; }),
                       running_.end());
        return code;
    }
    submitted_.notify_one();
    return 0;
}

int runs::abort(key command, ert_packet* packet) {
    const auto& request = *reinterpret_cast<const ert_abort_cmd*>(packet);
    std::lock_guard lock(mutex_);
    for (const run& each : running_) {
        if (!status_ || each.command != key{command.first, static_cast<unsigned>(request.exec_bo_handle)}) continue;
        status_->cancelled_run.store(each.number);
        status_->cancellations.fetch_add(1);
        syscall(SYS_futex, &status_->cancellations, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    }
    set_state(packet, ERT_CMD_STATE_COMPLETED);
    ++ends_;
    ended_.notify_all();
    return 0;
}

void runs::finish(const run& ended) {
    ert_cmd_state state = state_of(ended.of_driver.packet);
    if (status_ && state == ERT_CMD_STATE_COMPLETED) {
        const xrt_model::failure& entry = status_->failures[ended.number % status_page::FAILURES];
        if (entry.run.load(std::memory_order_acquire) == ended.number) {
            state = static_cast<ert_cmd_state>(entry.state);
            xrt_report::report(entry.sentence);
        }
    }
    if (ended.packet) set_state(ended.packet, state);
    free_copies_[ended.command.first].push_back(ended.of_driver);
}

bool runs::finish_ended() {
    const auto still = std::stable_partition(running_.begin(), running_.end(), [](const run& each) {
        return state_of(each.of_driver.packet) < ERT_CMD_STATE_COMPLETED;
    });
    if (still == running_.end()) return false;
    std::for_each(still, running_.end(), [this](const run& each) { finish(each); });
    running_.erase(still, running_.end());
    ++ends_;
    ended_.notify_all();
    return true;
}

void runs::watch() {
    prctl(PR_SET_TIMERSLACK, 1);  // pauses are short
    auto pause = FIRST_PAUSE;
    std::unique_lock lock(mutex_);
    for (;;) {
        submitted_.wait(lock, [this] { return !running_.empty(); });
        pause = finish_ended() ? FIRST_PAUSE : std::min(pause * 2, LONGEST_PAUSE);
        lock.unlock();
        std::this_thread::sleep_for(pause);
        lock.lock();
    }
}

int runs::wait_for_any(int timeout_ms) {
    // Per thread, so that one that looked at its command just before the end does not sleep through it.
    static thread_local uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    const auto news = [&] { return ends_ != seen; };
    if (timeout_ms < 0)
        ended_.wait(lock, news);
    else if (!ended_.wait_for(lock, std::chrono::milliseconds(timeout_ms), news))
        return 0;
    seen = ends_;
    return 1;
}

}  // namespace sw_emu_driver
