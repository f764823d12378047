#include "hal_card.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xrt_mem.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>

#include "cpu.hpp"
#include "error.hpp"
#include "report.hpp"

namespace xrt_hal {

using card_model::buffer;
using card_model::buffer_flags;
using card_model::compute_unit;
using card_model::direction;
using card_model::ert_command;
using card_model::ert_state;
using card_model::staging;

namespace {

constexpr int64_t WAIT_SPIN_NS = 20000;  // about what parking and waking cost
constexpr unsigned BANK_MASK = XRT_BO_FLAGS_MEMIDX_MASK;

int refuse(int code, const std::string& sentence) {
    set_last_error(sentence);
    return code;
}

// Runs the action; a failure becomes an errno and a sentence.
template <typename Action>
int guarded(Action&& action) {
    try {
        action();
        return 0;
    } catch (const card_model::out_of_memory& reason) {
        return refuse(-ENOMEM, reason.what());
    } catch (const std::exception& reason) {
        return refuse(-EINVAL, reason.what());
    }
}

void set_state(ert_packet* packet, ert_cmd_state state) {
    const uint32_t header = packet->header;
    __atomic_store_n(&packet->header, (header & ~0xfu) | static_cast<uint32_t>(state), __ATOMIC_RELEASE);
}

// What an allocation on the card looks like for XRT's flags. A host's side of its own is made outside of it, because
// it may be memory of the user's.
buffer_flags on_card(unsigned flags) {
    const unsigned kind = flags & ~BANK_MASK;
    if (kind & XCL_BO_FLAGS_HOST_ONLY) return buffer_flags::host_only;
    if (kind & XCL_BO_FLAGS_P2P) return buffer_flags::p2p;
    return buffer_flags::device_only;
}

// Buffers that have been exported, of all cards, by the inode of the file that stands for each.
struct exports {
    std::mutex mutex;
    std::unordered_map<ino_t, std::weak_ptr<buffer_object>> buffers;

    static exports& instance() {
        static exports& only = *new exports;
        return only;
    }
};

// Ends of commands, of all cards; never destroyed, as compute units outlive `main`.
struct ends {
    std::mutex mutex;
    std::condition_variable news;
    std::atomic<uint64_t> count{0};

    static ends& instance() {
        static ends& only = *new ends;
        return only;
    }
};

}  // namespace

std::string& last_error() {
    static thread_local std::string sentence;
    return sentence;
}

void set_last_error(const std::string& sentence) {
    last_error() = sentence;
    xrt_report::report(sentence);
}

hal_card& hal_card::of(unsigned index) {
    static std::mutex& mutex = *new std::mutex;
    static auto& cards = *new std::unordered_map<unsigned, std::unique_ptr<hal_card>>;
    std::lock_guard lock(mutex);
    auto& card = cards[index];
    if (!card) card.reset(new hal_card(index));
    return *card;
}

int hal_card::load(const void* xclbin, uint64_t bytes) {
    return guarded([&] {
        const std::string content(static_cast<const char*>(xclbin), bytes);
        card_->load(card_model::xclbin::from_bytes(content, "given to XRT"));
        std::lock_guard lock(mutex_);
        image_ = card_->loaded();
        units_.clear();
        for (const auto& unit : image_->compute_units())
            if (!unit->free_running()) units_.push_back(unit.get());
        std::sort(units_.begin(), units_.end(),
                  [](compute_unit* a, compute_unit* b) { return a->info().base < b->info().base; });
    });
}

unsigned hal_card::allocate(uint64_t bytes, unsigned flags, void* user) {
    auto object = std::make_shared<buffer_object>();
    object->bytes = bytes;
    object->flags = flags;
    const int code = guarded([&] {
        const bool command = flags & XCL_BO_FLAGS_EXECBUF;
        const bool placed = !command && card_->try_loaded();
        const bool copied = on_card(flags) == buffer_flags::device_only;
        if (placed) object->memory = std::make_unique<buffer>(card_, bytes, on_card(flags), flags & BANK_MASK);
        if (!command && !placed && copied) object->spare = std::make_shared<staging>(bytes);
        if (user) {
            object->host = static_cast<uint8_t*>(user);
        } else if (placed && !copied) {
            object->host = object->memory->map();
        } else if (!(flags & XCL_BO_FLAGS_DEV_ONLY)) {
            object->staging = std::make_shared<staging>(bytes);
            object->host = object->staging->data();
        }
    });
    if (code) return NO_BUFFER;
    std::lock_guard lock(mutex_);
    const unsigned handle = next_handle_++;
    buffers_.emplace(handle, std::move(object));
    return handle;
}

void hal_card::release(unsigned handle) {
    std::shared_ptr<buffer_object> last;  // goes without the lock
    std::lock_guard lock(mutex_);
    const auto found = buffers_.find(handle);
    if (found == buffers_.end()) return;
    last = std::move(found->second);
    commands_.erase(last->host);
    buffers_.erase(found);
}

std::shared_ptr<buffer_object> hal_card::find(unsigned handle) const {
    std::lock_guard lock(mutex_);
    const auto found = buffers_.find(handle);
    return found == buffers_.end() ? nullptr : found->second;
}

int hal_card::sync(unsigned handle, direction way, uint64_t bytes, uint64_t offset) const {
    const auto object = find(handle);
    if (!object || !object->host) return refuse(-EINVAL, "unknown buffer, or a buffer without a host mapping");
    if (object->spare) {
        if (bytes > object->bytes || offset > object->bytes - bytes)
            return refuse(-EINVAL, "a sync passes the end of its buffer");
        uint8_t *host = object->host + offset, *card = object->spare->data() + offset;
        const bool there = way == direction::to_device;
        std::memcpy(there ? card : host, there ? host : card, bytes);
    }
    if (!object->memory) return 0;
    return guarded([&] {
        const buffer& memory = *object->memory;
        if (on_card(object->flags) != buffer_flags::device_only)
            memory.check_range("a sync", bytes, offset);
        else if (way == direction::to_device)
            memory.upload(object->host + offset, bytes, offset);
        else
            memory.download(object->host + offset, bytes, offset);
    });
}

int hal_card::copy(unsigned target, unsigned source, uint64_t bytes, uint64_t target_offset,
                   uint64_t source_offset) const {
    const auto to = find(target), from = find(source);
    if (!to || !from || !to->memory || !from->memory) return refuse(-EINVAL, "unknown buffer");
    return guarded([&] { to->memory->copy(*from->memory, bytes, source_offset, target_offset); });
}

int hal_card::export_buffer(unsigned handle) const {
    const auto object = find(handle);
    if (!object || !object->memory)
        return refuse(-EINVAL, "unknown buffer, or a command buffer, which cannot be exported");
    const int file = memfd_create("fpga-dynamo-export", MFD_CLOEXEC);
    struct stat about{};
    if (file < 0 || fstat(file, &about) != 0) {
        if (file >= 0) close(file);
        return refuse(-errno, card_model::system_reason("no descriptor for an exported buffer"));
    }
    exports& all = exports::instance();
    std::lock_guard lock(all.mutex);
    all.buffers[about.st_ino] = object;
    return file;
}

unsigned hal_card::import_buffer(int file) {
    exports& all = exports::instance();
    std::shared_ptr<buffer_object> object;
    struct stat about{};
    if (fstat(file, &about) == 0) {
        std::lock_guard lock(all.mutex);
        const auto found = all.buffers.find(about.st_ino);
        if (found != all.buffers.end()) object = found->second.lock();
    }
    if (!object) {
        refuse(-EINVAL,
               "the descriptor is not of an exported buffer of this process; buffers are shared within a process only");
        return NO_BUFFER;
    }
    std::lock_guard lock(mutex_);
    const unsigned handle = next_handle_++;
    buffers_.emplace(handle, std::move(object));
    return handle;
}

compute_unit* hal_card::choose(const ert_start_kernel_cmd& packet) const {
    compute_unit* best = nullptr;
    for (unsigned word = 0; word <= packet.extra_cu_masks; ++word) {
        const uint32_t mask = word == 0 ? packet.cu_mask : packet.data[word - 1];
        for (unsigned bit = 0; bit < 32; ++bit) {
            const size_t index = size_t{word} * 32 + bit;
            if (!(mask >> bit & 1) || index >= units_.size()) continue;
            if (!best || units_[index]->load() < best->load()) best = units_[index];
        }
    }
    return best;
}

int hal_card::submit(unsigned handle) {
    const auto object = find(handle);
    if (!object || !object->host || object->bytes < sizeof(ert_packet)) return refuse(-EINVAL, "no command buffer");
    auto* packet = reinterpret_cast<ert_packet*>(object->host);
    switch (packet->opcode) {
        case ERT_START_CU: return start(object);
        case ERT_ABORT: {
            const int code = abort(*reinterpret_cast<const ert_abort_cmd*>(packet));
            if (code == 0) ended(packet, ERT_CMD_STATE_COMPLETED);
            return code;
        }
        case ERT_CONFIGURE: ended(packet, ERT_CMD_STATE_COMPLETED); return 0;
        default: return refuse(-ENOTSUP, "the emulator supports starting compute units by register maps only");
    }
}

int hal_card::start(const std::shared_ptr<buffer_object>& shared) {
    buffer_object& object = *shared;
    auto* packet = reinterpret_cast<ert_start_kernel_cmd*>(object.host);
    const uint64_t words = packet->count;  // masks and registers; the register map begins with the control registers
    const uint64_t masks = 1 + packet->extra_cu_masks;
    constexpr uint64_t CONTROL_WORDS = fpga::CU_ARGUMENTS / 4;
    if (words < masks || (words + 1) * 4 > object.bytes || (words - masks) * 4 > fpga::CU_REGISTER_BYTES)
        return refuse(-EINVAL, "the command's register map is larger than its buffer or a compute unit's");
    std::lock_guard lock(mutex_);
    compute_unit* unit = choose(*packet);
    if (!unit) return refuse(-EINVAL, "the command does not name a compute unit of the loaded xclbin");
    if (object.command && object.command->busy()) return refuse(-EBUSY, "the command is under way already");
    if (!object.command) {
        object.command = std::make_shared<ert_command>();
        // The host may let go of the buffer before the command has ended; its memory stays as long as the command.
        object.command->add_callback([packet, one = object.command.get(), keeps = object.staging](ert_state state) {
            static_cast<void>(keeps);
            if (state != ert_state::completed) xrt_report::report(one->error());
            ended(reinterpret_cast<ert_packet*>(packet), static_cast<ert_cmd_state>(state));
        });
    }
    ert_command& command = *object.command;
    const uint32_t* registers = packet->data + packet->extra_cu_masks;
    const uint64_t count = words - masks;
    if (count > CONTROL_WORDS)
        std::memcpy(command.registers + fpga::CU_ARGUMENTS, registers + CONTROL_WORDS, (count - CONTROL_WORDS) * 4);
    command.cancelled.store(0);
    command.status.store(0);
    card_->counters().runs.fetch_add(1, std::memory_order_relaxed);
    set_state(reinterpret_cast<ert_packet*>(packet), ERT_CMD_STATE_RUNNING);
    object.unit = unit;
    commands_[packet] = shared;
    unit->enqueue(object.command);
    return 0;
}

// Null, with the sentence set, for what is no register.
compute_unit* hal_card::unit_of(unsigned unit, uint32_t offset) const {
    std::lock_guard lock(mutex_);
    if (unit < units_.size() && offset < fpga::CU_REGISTER_BYTES && offset % 4 == 0) return units_[unit];
    set_last_error("compute unit " + std::to_string(unit) + " of the loaded xclbin has no register at offset " +
                   std::to_string(offset));
    return nullptr;
}

int hal_card::read_register(unsigned unit, uint32_t offset, uint32_t& value) const {
    const compute_unit* own = unit_of(unit, offset);
    if (!own) return -EINVAL;
    value = own->read_register(offset);
    return 0;
}

int hal_card::write_register(unsigned unit, uint32_t offset, uint32_t value) const {
    compute_unit* own = unit_of(unit, offset);
    if (!own) return -EINVAL;
    if (offset == card_model::register_file::CONTROL)
        return refuse(-EOPNOTSUPP, "the emulator starts compute units by runs; use xrt::run, not the control register");
    own->write_register(offset, value);
    return 0;
}

void hal_card::ended(ert_packet* packet, ert_cmd_state state) {
    ends& all = ends::instance();
    {
        std::lock_guard lock(all.mutex);
        set_state(packet, state);
        all.count.fetch_add(1, std::memory_order_release);
    }
    all.news.notify_all();
}

int hal_card::wait_for_any(int timeout_ms) {
    // Per thread, so that one that looked at its command just before the end does not sleep through it.
    static thread_local uint64_t seen = 0;
    ends& all = ends::instance();
    const auto news = [&] { return all.count.load(std::memory_order_acquire) != seen; };
    if (card_model::spinning_pays()) {
        const int64_t stop = card_model::monotonic_ns() + WAIT_SPIN_NS;
        while (!news() && card_model::monotonic_ns() < stop) card_model::cpu_relax();
    }
    std::unique_lock lock(all.mutex);
    if (timeout_ms < 0)
        all.news.wait(lock, news);
    else if (!all.news.wait_for(lock, std::chrono::milliseconds(timeout_ms), news))
        return 0;
    seen = all.count.load(std::memory_order_acquire);
    return 1;
}

int hal_card::abort(const ert_abort_cmd& request) const {
    const auto object = find(static_cast<unsigned>(request.exec_bo_handle));
    if (!object || !object->command) return refuse(-EINVAL, "the command to be ended was never started");
    if (object->command->busy()) object->unit->cancel(*object->command, ert_state::abort);
    return 0;
}

std::shared_ptr<buffer_object> hal_card::started(const void* packet) const {
    std::lock_guard lock(mutex_);
    const auto found = commands_.find(packet);
    return found == commands_.end() ? nullptr : found->second;
}

bool hal_card::execute(const void* packet, unsigned timeout_ms) {
    const auto object = started(packet);
    return object && object->unit->execute_queued(*object->command, timeout_ms);
}

std::string hal_card::error_of(const void* packet) const {
    const auto object = started(packet);
    return object ? object->command->error() : "";
}

}  // namespace xrt_hal
