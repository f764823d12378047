// What the parts of a card by XRT share: XRT's exceptions as ours, the state of a card, and its buffers.
#pragma once
#include <experimental/xrt_xclbin.h>
#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "error.hpp"
#include "served_card.hpp"
#include "xclbin.hpp"

namespace card_server {

using card_model::ert_state;

// XRT's exceptions become ours. `what` was being done.
template <typename Call>
auto translated(const std::string& what, Call&& call) -> decltype(call()) {
    try {
        return call();
    } catch (const card_model::error&) {
        throw;
    } catch (const std::bad_alloc&) {
        throw card_model::out_of_memory(what + ": the bank has not enough free memory");
    } catch (const std::system_error& reason) {
        const int code = std::abs(reason.code().value());
        if (code == ENOMEM) throw card_model::out_of_memory(what + ": " + reason.what());
        throw card_model::error(what + ": " + reason.what());
    } catch (const std::exception& reason) {
        throw card_model::error(what + ": " + reason.what());
    }
}

inline bool is_end(ert_state state) {
    return state == ert_state::completed || state == ert_state::error || state == ert_state::abort ||
           state >= ert_state::timeout;
}

struct abandoned_run {
    xrt::run object;
    std::vector<xrt::bo> buffers;
};

// What refers to the xclbin that is loaded. XRT's kernels and runs do so even when it has gone, and give what they know of
// it to those of the next one, so they end before another is loaded.
class closable {
public:
    virtual void close() = 0;  // with the card's mutex held

protected:
    ~closable() = default;
};

// What all sessions share of a card.
struct card_state {
    explicit card_state(unsigned number) : index(number), device(number) {}

    const unsigned index;
    xrt::device device;
    std::mutex mutex;  // of what follows
    std::optional<card_model::xclbin> file;
    unsigned loads = 0;
    std::map<uint32_t, std::pair<uint64_t, uint64_t>> banks;  // bytes and buffers of each group
    std::map<const void*, xrt::run> started;                  // runs whose end nobody has seen yet
    std::set<closable*> opened;                               // kernels and runs
    std::vector<abandoned_run> abandoned;                     // that nobody refers to any more

    // With the mutex held: whether a run is under way.
    bool busy() const {
        const auto runs = [](const xrt::run& one) { return !is_end(static_cast<ert_state>(one.state())); };
        return std::any_of(started.begin(), started.end(), [&](const auto& one) { return runs(one.second); }) ||
               std::any_of(abandoned.begin(), abandoned.end(), [&](const auto& one) { return runs(one.object); });
    }

    void release_ended() {
        std::vector<abandoned_run> ended;
        std::lock_guard lock(mutex);
        const auto first = std::partition(abandoned.begin(), abandoned.end(), [](const abandoned_run& one) {
            return !is_end(static_cast<ert_state>(one.object.state()));
        });
        std::move(first, abandoned.end(), std::back_inserter(ended));
        abandoned.erase(first, abandoned.end());
    }
};
using shared_state = std::shared_ptr<card_state>;

class xrt_buffer : public served_buffer {
public:
    xrt_buffer(shared_state card, uint64_t bytes, uint32_t group)
        : object(translated("a buffer of " + std::to_string(bytes) + " bytes in memory group " + std::to_string(group),
                            [&] { return xrt::bo(card->device, bytes, xrt::bo::flags::normal, group); })),
          card_(std::move(card)),
          bytes_(bytes),
          group_(group) {
        std::lock_guard lock(card_->mutex);
        auto& use = card_->banks[group_];
        use = {use.first + bytes_, use.second + 1};
    }
    ~xrt_buffer() override {
        std::lock_guard lock(card_->mutex);
        auto& use = card_->banks[group_];
        use = {use.first - bytes_, use.second - 1};
    }

    uint64_t address() override {
        return translated("the address of a buffer", [&] { return object.address(); });
    }
    void put(const void* from, uint64_t bytes, uint64_t offset) override {
        translated("a transfer to the card", [&] {
            object.write(from, bytes, offset);
            object.sync(XCL_BO_SYNC_BO_TO_DEVICE, bytes, offset);
        });
    }
    void fetch(void* to, uint64_t bytes, uint64_t offset) override {
        translated("a transfer from the card", [&] {
            object.sync(XCL_BO_SYNC_BO_FROM_DEVICE, bytes, offset);
            object.read(to, bytes, offset);
        });
    }
    // Through the host: many shells have no engine for it.
    void copy(served_buffer& source, uint64_t bytes, uint64_t source_offset, uint64_t offset) override {
        if (!bytes) return;
        std::vector<uint8_t> through(bytes);
        source.fetch(through.data(), bytes, source_offset);
        put(through.data(), bytes, offset);
    }

    xrt::bo object;

private:
    const shared_state card_;
    const uint64_t bytes_;
    const uint32_t group_;
};

}  // namespace card_server
