// Cards that AMD's XRT drives, by XRT's C++ API. All sessions share a card, which has one xclbin.
#include <dlfcn.h>
#include <ert.h>
#include <experimental/xrt_system.h>
#include <xrt/xrt_uuid.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "xrt_state.hpp"

namespace card_server {

namespace {

using card_model::error;
using card_model::transfer;
using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint64_t RECORD_BYTES = 64;  // of the status record at an arena's begin (hls_kernels/command.hpp)
constexpr auto PATIENCE = std::chrono::seconds(3);  // with a card that is asked to end a run
constexpr auto SLICE = milliseconds(100);           // of a wait: XRT's time-outs start again when another run ends

struct opened_kernel : closable {
    // With the card's mutex held.
    opened_kernel(shared_state of, card_model::kernel_info about, xrt::kernel made)
        : card(std::move(of)), load(card->loads), info(std::move(about)), object(std::move(made)) {
        card->opened.insert(this);
    }
    ~opened_kernel() {
        std::lock_guard lock(card->mutex);
        card->opened.erase(this);
    }
    opened_kernel(const opened_kernel&) = delete;
    opened_kernel& operator=(const opened_kernel&) = delete;
    void close() override { object = {}; }

    const shared_state card;
    const unsigned load;  // of the card, which its xclbin came with
    const card_model::kernel_info info;
    xrt::kernel object;

    void check_loaded() const {
        std::lock_guard lock(card->mutex);
        if (card->loads != load)
            throw error("card " + std::to_string(card->index) + " has been loaded with another xclbin since kernel '" +
                        info.name + "' was opened; open it again");
    }
    const card_model::argument_info& argument(uint32_t index) const {
        if (index >= info.arguments.size())
            throw error("kernel '" + info.name + "' has " + std::to_string(info.arguments.size()) +
                        " arguments; there is no argument " + std::to_string(index));
        return info.arguments[index];
    }
};

class xrt_run : public served_run, public closable {
public:
    explicit xrt_run(std::shared_ptr<const opened_kernel> kernel)
        : kernel_(std::move(kernel)),
          object_(translated("a run", [&] { return xrt::run(kernel_->object); })),
          buffers_(kernel_->info.arguments.size()),
          set_(kernel_->info.arguments.size()) {
        std::lock_guard lock(kernel_->card->mutex);
        kernel_->card->opened.insert(this);
    }
    ~xrt_run() override {
        std::lock_guard lock(kernel_->card->mutex);
        kernel_->card->opened.erase(this);
        if (kernel_->card->started.erase(this) && !is_end(now()))
            kernel_->card->abandoned.push_back({object_, buffers_});
    }

    void set_buffer(uint32_t index, served_buffer& value) override {
        if (!kernel_->argument(index).global) throw card_model::error(title(index) + " is a scalar, not a buffer");
        kernel_->check_loaded();
        xrt::bo& object = static_cast<xrt_buffer&>(value).object;
        translated(title(index), [&] { object_.set_arg(static_cast<int>(index), object); });
        buffers_[index] = object;
        set_[index] = true;
    }
    void set_scalar(uint32_t index, const void* bytes, size_t count) override {
        kernel_->check_loaded();
        translated(title(index), [&] { object_.set_arg(static_cast<int>(index), bytes, count); });
        set_[index] = true;
    }

    void start() override {
        kernel_->check_loaded();
        for (uint32_t i = 0; i < set_.size(); ++i)
            if (!set_[i] && !kernel_->info.arguments[i].stream) throw card_model::error(title(i) + " has not been set");
        const std::string who = "this run of kernel '" + kernel_->info.name + "'";
        if (started_ && !is_end(state()))
            throw card_model::error(who + " is under way already; wait for it, or make another");
        finish();
        translated(who, [&] {
            std::lock_guard lock(kernel_->card->mutex);
            start_ns_ = card_model::monotonic_ns();
            object_.start();
            refused_ = 0;
            started_ = true;
            kernel_->card->started.emplace(this, object_);
        });
    }
    ert_state wait(unsigned timeout_ms) override {
        if (!started_) return now();
        const auto end = clock::now() + milliseconds(timeout_ms);
        while (!is_end(now())) {
            const auto left = std::chrono::ceil<milliseconds>(end - clock::now());
            if (timeout_ms && left.count() <= 0) return ert_state::timeout;
            translated("a wait", [&] { object_.wait(timeout_ms ? std::min(left, SLICE) : SLICE); });
        }
        return state();
    }
    ert_state state() override {
        const ert_state found = now();
        if (started_ && is_end(found)) finish();
        return found == ert_state::completed && refused_ ? ert_state::error : found;
    }
    ert_state abort() override {
        if (!started_ || is_end(now())) return state();
        // XRT's own returns when the card has obeyed, which it may never do.
        std::thread([same = object_]() mutable {
            try {
                same.abort();
            } catch (const std::exception&) {  // a card that cannot end a run; the state tells
            }
        }).detach();
        for (const auto end = clock::now() + PATIENCE; !is_end(now()) && clock::now() < end;)
            std::this_thread::sleep_for(milliseconds(1));
        return state();
    }
    std::string error() override {
        if (!started_ || !is_end(now()) || state() == ert_state::completed) return "";
        if (const uint64_t record = refused_)
            return "command " + std::to_string(record >> 32) + " ended with status " +
                   std::to_string(record & 0xffffffff) + " (STATUS_* of hls_kernels/command.hpp)";
        // The emulator as XRT's driver knows why.
        using function = const char* (*)(void*, const void*);
        static const auto error_of = reinterpret_cast<function>(dlsym(RTLD_DEFAULT, "fpga_dynamo_error_of"));
        std::lock_guard lock(object_mutex_);
        return error_of && object_
                   ? error_of(static_cast<xclDeviceHandle>(kernel_->card->device), object_.get_ert_packet())
                   : "";
    }
    ert_state execute(served_buffer& memory, const std::vector<transfer>& inputs, const std::vector<transfer>& outputs,
                      unsigned timeout_ms, bool reads_status) override {
        for (const transfer& one : inputs)
            if (one.bytes) memory.put(reinterpret_cast<const void*>(one.host), one.bytes, one.offset);
        start();
        const ert_state ended = wait(timeout_ms);
        if (ended == ert_state::timeout) abort();
        if (ended != ert_state::completed) return ended;
        if (reads_status) {
            uint32_t record[RECORD_BYTES / sizeof(uint32_t)];
            memory.fetch(record, sizeof record, 0);
            if (record[0]) refused_ = uint64_t{record[1]} << 32 | record[0];
            if (record[0]) return ert_state::error;
        }
        for (const transfer& one : outputs)
            if (one.bytes) memory.fetch(reinterpret_cast<void*>(one.host), one.bytes, one.offset);
        return ended;
    }
    std::pair<int64_t, int64_t> times() override { return {start_ns_, stop_ns_}; }

private:
    std::string title(uint32_t index) const {
        return "argument " + std::to_string(index) + " ('" + kernel_->argument(index).name + "') of kernel '" +
               kernel_->info.name + "'";
    }
    ert_state now() const {
        std::lock_guard lock(object_mutex_);
        return object_ ? static_cast<ert_state>(object_.state()) : closed_;
    }
    void close() override {
        kernel_->card->started.erase(this);
        const ert_state last = now();
        std::lock_guard lock(object_mutex_);
        closed_ = last;
        object_ = {};
        buffers_.clear();
    }
    // Tells XRT that the run has ended, without which it refuses to start it again.
    void finish() {
        std::lock_guard lock(kernel_->card->mutex);
        if (!kernel_->card->started.erase(this)) return;
        stop_ns_ = card_model::monotonic_ns();
        object_.wait(milliseconds(1));
    }

    const std::shared_ptr<const opened_kernel> kernel_;
    mutable std::mutex object_mutex_;
    xrt::run object_;
    ert_state closed_{};            // the state that it had when another xclbin was loaded
    std::vector<xrt::bo> buffers_;  // by argument
    std::vector<bool> set_;
    std::atomic<bool> started_{false};
    std::atomic<uint64_t> refused_{0};  // the status record of the last start, if that was not success
    std::atomic<int64_t> start_ns_{0}, stop_ns_{0};
};

class xrt_kernel : public served_kernel {
public:
    explicit xrt_kernel(std::shared_ptr<const opened_kernel> kernel) : kernel_(std::move(kernel)) {}
    uint32_t group_id(uint32_t argument) override {
        const card_model::argument_info& wanted = kernel_->argument(argument);
        if (!wanted.global)
            throw error("argument " + std::to_string(argument) + " ('" + wanted.name + "') of kernel '" +
                        kernel_->info.name + "' is a scalar and lies in no memory group");
        return static_cast<uint32_t>(
            translated("a memory group", [&] { return kernel_->object.group_id(static_cast<int>(argument)); }));
    }
    std::pair<std::string, uint64_t> scalar(uint32_t argument) override {
        const card_model::argument_info& wanted = kernel_->argument(argument);
        return {"argument " + std::to_string(argument) + " ('" + wanted.name + "') of kernel '" + kernel_->info.name +
                    "'",
                wanted.global || wanted.stream ? 0 : wanted.bytes};
    }
    std::unique_ptr<served_run> make_run() override {
        kernel_->card->release_ended();
        kernel_->check_loaded();
        return std::make_unique<xrt_run>(kernel_);
    }

private:
    const std::shared_ptr<const opened_kernel> kernel_;
};

class xrt_card : public served_card {
public:
    explicit xrt_card(shared_state state) : state_(std::move(state)) {}

    std::string load(const std::string& bytes, const std::string& name) override {
        auto file = card_model::xclbin::from_bytes(bytes, name);
        const std::string id = card_model::to_string(file.id());
        state_->release_ended();
        std::lock_guard lock(state_->mutex);
        if (state_->file && state_->file->id() == file.id()) return id;
        if (state_->busy())
            throw error("card " + std::to_string(state_->index) + " cannot load xclbin '" + name +
                        "' while a run is under way; wait for it first");
        for (closable* one : state_->opened) one->close();
        translated("card " + std::to_string(state_->index) + " rejects the xclbin",
                   [&] { state_->device.load_xclbin(xrt::xclbin(std::vector<char>(bytes.begin(), bytes.end()))); });
        state_->file = std::move(file);
        ++state_->loads;
        return id;
    }
    std::string uuid() override {
        std::lock_guard lock(state_->mutex);
        return card_model::to_string(state_->file ? state_->file->id() : card_model::uuid{});
    }
    std::string info(const std::string& what) override {
        return translated("the card's information", [&]() -> std::string {
            if (what == "bdf") return state_->device.get_info<xrt::info::device::bdf>();
            if (what == "name") return state_->device.get_info<xrt::info::device::name>();
            return state_->device.get_info<xrt::info::device::offline>() ? "true" : "false";
        });
    }
    std::vector<served_bank> memory() override {
        std::lock_guard lock(state_->mutex);
        std::vector<served_bank> result;
        const auto& banks = loaded().memories();
        for (uint32_t i = 0; i < banks.size(); ++i)
            if (banks[i].used)
                result.push_back({banks[i].tag, i, banks[i].bytes, state_->banks[i].first, state_->banks[i].second});
        return result;
    }
    std::shared_ptr<served_kernel> open_kernel(const std::string& id, const std::string& name) override {
        std::lock_guard lock(state_->mutex);
        const card_model::xclbin& file = loaded();
        if (file.id() != card_model::parse_uuid(id))
            throw error("card " + std::to_string(state_->index) + " holds xclbin " + card_model::to_string(file.id()) +
                        ", not " + id + "; load that one first");
        const std::string of = name.substr(0, name.find(':'));
        const auto& kernels = file.kernels();
        const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const auto& k) { return k.name == of; });
        if (found == kernels.end()) throw error("the xclbin has no kernel '" + of + "'");
        auto object = translated("kernel '" + name + "'",
                                 [&] { return xrt::kernel(state_->device, xrt::uuid(id), name); });
        return std::make_shared<xrt_kernel>(std::make_shared<opened_kernel>(state_, *found, std::move(object)));
    }
    std::shared_ptr<served_buffer> allocate(uint64_t bytes, bool, uint32_t group) override {
        if (bytes == 0) throw error("a buffer must have at least one byte");
        state_->release_ended();
        return std::make_shared<xrt_buffer>(state_, bytes, group);
    }

private:
    const card_model::xclbin& loaded() const {
        if (!state_->file) throw error("card " + std::to_string(state_->index) + " has no xclbin; load one first");
        return *state_->file;
    }

    const shared_state state_;
};

class xrt_cards : public card_driver {
public:
    const char* name() const override { return "xrt"; }
    unsigned count() override {
        if (std::getenv("XCL_EMULATION_MODE")) return 1;  // which tells of none, and makes up any that is asked for
        try {
            return xrt::system::enumerate_devices();
        } catch (const std::exception&) {  // where its driver cannot be loaded
            return 0;
        }
    }
    bool has_contexts() const override { return false; }
    std::shared_ptr<served_card> open(unsigned index) override {
        std::lock_guard lock(mutex_);
        shared_state& slot = cards_[index];
        if (!slot)
            slot = translated("card " + std::to_string(index) + " cannot be opened",
                              [&] { return std::make_shared<card_state>(index); });
        return std::make_shared<xrt_card>(slot);
    }

private:
    std::mutex mutex_;
    std::map<unsigned, shared_state> cards_;
};

}  // namespace

std::unique_ptr<card_driver> xrt_driver() { return std::make_unique<xrt_cards>(); }

}  // namespace card_server
