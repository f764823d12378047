#include "session.hpp"

#include <cstring>

#include "error.hpp"

namespace card_server {

using card_model::error;
using card_model::transfer;

namespace {

enum class operation {
#define OPERATION(name) name,
    CARD_OPERATIONS(OPERATION)
#undef OPERATION
};

operation operation_of(const std::string& name) {
    static const std::map<std::string, operation> known{
#define OPERATION(name) {#name, operation::name},
        CARD_OPERATIONS(OPERATION)
#undef OPERATION
    };
    const auto found = known.find(name);
    if (found == known.end()) throw error("the server knows no operation '" + name.substr(0, 80) + "'");
    return found->second;
}

answer missing() { return {json_object().flag("missing", true).str()}; }

}  // namespace

void session::buffer::check(uint64_t count, uint64_t offset) const {
    if (offset > bytes || count > bytes - offset)
        throw error(std::to_string(count) + " bytes at offset " + std::to_string(offset) + " lie outside a buffer of " +
                    std::to_string(bytes) + " bytes");
}

answer session::request(const fields::value& head, const view& payload) {
    ++requests_;
    struct count_down {
        std::atomic<unsigned>& requests;
        ~count_down() { --requests; }
    } const at_end{requests_};
    const fields given(head);
    free(given.numbers("free"));
    switch (operation_of(given.text("op"))) {
        case operation::status:  // which the server answers itself
        case operation::free: return {};
        case operation::open:
            add(given.number("id"),
                std::make_shared<device>(device{given.number("index"), cards_.open(given.number("index"))}));
            return {};
        case operation::load: return load(given);
        case operation::put: return put(given, payload);
        case operation::fetch: return fetch(given);
        case operation::xclbin_uuid: return {json_object().text("uuid", device_of(given)->card->uuid()).str()};
        case operation::info: return info(given);
        case operation::memory: return memory(given);
        case operation::kernel:
            add(given.number("id"), device_of(given)->card->open_kernel(given.text("uuid"), given.text("name")));
            return {};
        case operation::group: {
            const auto index = static_cast<uint32_t>(given.number("argument", card_protocol::MOST_ARGUMENT));
            return {json_object().number("group", find<served_kernel>(given, "kernel")->group_id(index)).str()};
        }
        case operation::bo: return allocate(given);
        case operation::address: return {json_object().number("address", buffer_of(given)->memory->address()).str()};
        case operation::write: return write(given, payload);
        case operation::place: return place(given);
        case operation::read: return read(given);
        case operation::copy: return copy(given);
        case operation::populate: buffer_of(given)->memory->populate(); return {};
        case operation::discard: {
            const auto found = buffer_of(given);
            const uint64_t bytes = given.number("nbytes"), offset = given.number("offset");
            found->check(bytes, offset);
            found->memory->discard(bytes, offset);
            return {};
        }
        case operation::start: return execute(given, payload, false);
        case operation::execute: return execute(given, payload, true);
        case operation::wait: {
            const uint64_t ms = given.number("timeout_ms", card_protocol::MOST_TIMEOUT_MS);
            return {find<session_run>(given, "run")->wait(static_cast<unsigned>(ms ? ms : 1))};
        }
        case operation::state: return {find<session_run>(given, "run")->state()};
        case operation::abort: return {find<session_run>(given, "run")->abort()};
    }
    throw error("the server knows no such operation");
}

void session::close() {
    std::map<uint64_t, object> objects;
    {
        std::lock_guard lock(mutex_);
        closed_ = true;
        objects.swap(objects_);
        uploads_.clear();
    }
    uint64_t bytes = 0;
    std::unique_lock ending(ending_mutex_);
    for (const auto& [number, one] : objects) {
        if (const auto* run = std::get_if<std::shared_ptr<session_run>>(&one)) ending_.push_back(*run);
        if (const auto* memory = std::get_if<std::shared_ptr<buffer>>(&one)) bytes += (*memory)->bytes;
    }
    ending.unlock();
    end_runs();
    cards_.give(bytes);
    cards_.forget(this);
}

bool session::end_runs() {
    std::lock_guard lock(ending_mutex_);
    for (const auto& run : ending_) run->end();
    if (requests_) return true;
    ending_.clear();
    return false;
}

size_t session::buffers() {
    std::lock_guard lock(mutex_);
    size_t count = 0;
    for (const auto& [number, one] : objects_) count += std::holds_alternative<std::shared_ptr<buffer>>(one);
    return count;
}

// Objects

template <typename Object>
std::shared_ptr<Object> session::find(const fields& given, const char* name) {
    const uint64_t number = given.number(name);
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(number);
    const auto* held = found == objects_.end() ? nullptr : std::get_if<std::shared_ptr<Object>>(&found->second);
    if (!held) throw error("field '" + std::string(name) + "' of a request names no " + name + " of this session");
    return *held;
}

void session::add(uint64_t number, object made) {
    std::lock_guard lock(mutex_);
    if (closed_) throw error("the session has ended");
    if (objects_.size() >= card_protocol::MOST_OBJECTS || !objects_.emplace(number, std::move(made)).second)
        throw error("a session has at most " + std::to_string(card_protocol::MOST_OBJECTS) +
                    " objects, each with a number of its own");
}

void session::free(const std::vector<uint64_t>& numbers) {
    for (const uint64_t number : numbers) {
        object dropped;  // let go without the lock
        {
            std::lock_guard lock(mutex_);
            const auto found = objects_.find(number);
            if (found == objects_.end()) continue;
            dropped = std::move(found->second);
            objects_.erase(found);
        }
        if (const auto* memory = std::get_if<std::shared_ptr<buffer>>(&dropped)) cards_.give((*memory)->bytes);
    }
}

// Devices

answer session::load(const fields& given) {
    const auto found = device_of(given);
    const std::string id = cards_.load(this, found->index, *found->card, given.digest());
    if (id.empty()) return missing();
    json_object result;
    result.text("uuid", id);
    if (cards_.driver->has_contexts()) {
        const auto window = json_array().add(std::to_string(card_model::WINDOW_BYTES));
        result.number("lanes", found->card->lanes());
        result.raw("windows", json_array(window).add(std::to_string(card_model::WINDOW_BEAT)).str());
    }
    return {result.str()};
}

// A part of an xclbin; the parts come in their order.
answer session::put(const fields& given, const view& payload) {
    const std::string& digest = given.digest();
    const uint64_t offset = given.number("offset"), bytes = given.number("nbytes");
    if (bytes > cards_.kept.most_bytes() || offset + payload.bytes > bytes)
        throw error("a part of " + std::to_string(payload.bytes) + " bytes at " + std::to_string(offset) +
                    " does not lie in a content of " + std::to_string(bytes) + " bytes, of at most " +
                    std::to_string(cards_.kept.most_bytes()) + " (--keep)");
    std::shared_ptr<memory_block> whole;
    {
        std::lock_guard lock(mutex_);
        const auto found = uploads_.find(digest);
        if (found != uploads_.end() && found->second->bytes() == bytes) {
            whole = found->second;
        } else {
            if (closed_ || uploads_.size() >= card_protocol::MOST_UPLOADS)
                throw error("a session sends at most " + std::to_string(card_protocol::MOST_UPLOADS) +
                            " files at a time");
            whole = uploads_[digest] = std::make_shared<memory_block>(bytes);
        }
    }
    std::memcpy(whole->data() + offset, payload.data, payload.bytes);
    if (offset + payload.bytes == bytes) {
        {
            std::lock_guard lock(mutex_);
            uploads_.erase(digest);
        }
        cards_.kept.put(digest, whole->data(), bytes);
    }
    return {};
}

// A part of the server's own xclbin.
answer session::fetch(const fields& given) {
    const uint64_t offset = given.number("offset"), bytes = given.number("nbytes");
    const auto* own = cards_.offered.get();
    if (!own || given.digest() != own->digest || offset > own->bytes.size() || bytes > own->bytes.size() - offset)
        throw error("the server offers no such part of an xclbin");
    return {"{}", {{reinterpret_cast<const uint8_t*>(own->bytes.data()) + offset, bytes}}};
}

answer session::info(const fields& given) {
    const std::string& what = given.text("what");
    if (what != "bdf" && what != "name" && what != "offline")
        throw error("a card has no information called '" + what.substr(0, 80) + "'");
    return {json_object().text("text", device_of(given)->card->info(what)).str()};
}

answer session::memory(const fields& given) {
    json_array rows;
    for (const served_bank& bank : device_of(given)->card->memory())
        rows.add(json_object()
                     .text("tag", bank.tag)
                     .number("index", bank.index)
                     .number("bytes", bank.bytes)
                     .number("used", bank.used)
                     .number("buffers", bank.buffers)
                     .str());
    return {json_object().raw("banks", rows.str()).str()};
}

// Buffers

answer session::allocate(const fields& given) {
    const auto found = device_of(given);
    const uint64_t bytes = given.number("nbytes");
    const std::string& flags = given.text("flags");
    const bool device_only = flags == card_protocol::DEVICE_ONLY;
    if (!device_only && flags != card_protocol::NORMAL)
        throw error("a buffer is " + std::string(card_protocol::NORMAL) + " or " + card_protocol::DEVICE_ONLY +
                    ", not '" + flags.substr(0, 80) + "'");
    const auto group = static_cast<uint32_t>(given.number("group", card_protocol::MOST_INDEX));
    const uint64_t number = given.number("id");
    cards_.take(bytes);
    try {
        add(number, std::make_shared<buffer>(buffer{bytes, found->card->allocate(bytes, device_only, group)}));
    } catch (...) {
        cards_.give(bytes);
        throw;
    }
    return {};
}

// Bytes to the card; with a digest they are kept for the next time.
answer session::write(const fields& given, const view& payload) {
    const auto found = buffer_of(given);
    const uint64_t offset = given.number("offset");
    found->check(payload.bytes, offset);
    if (given.has("digest")) cards_.kept.put(given.digest(), payload.data, payload.bytes);
    if (payload.bytes) found->memory->put(payload.data, payload.bytes, offset);
    return {};
}

// Bytes that the server has kept to the card.
answer session::place(const fields& given) {
    const auto found = buffer_of(given);
    const uint64_t offset = given.number("offset"), bytes = given.number("nbytes");
    found->check(bytes, offset);
    const content kept = cards_.kept.get(given.digest());
    if (!kept || kept->bytes() != bytes) return missing();
    found->memory->put(kept->data(), bytes, offset);
    return {};
}

answer session::read(const fields& given) {
    const auto found = buffer_of(given);
    const uint64_t offset = given.number("offset"), bytes = given.number("nbytes");
    found->check(bytes, offset);
    const auto made = std::make_shared<memory_block>(bytes);
    if (bytes) found->memory->fetch(made->data(), bytes, offset);
    return {"{}", {{made->data(), bytes, made}}};
}

answer session::copy(const fields& given) {
    const auto to = buffer_of(given), from = buffer_of(given, "source");
    const uint64_t bytes = given.number("nbytes"), offset = given.number("offset"),
                   begin = given.number("source_offset");
    to->check(bytes, offset);
    from->check(bytes, begin);
    to->memory->copy(*from->memory, bytes, begin, offset);
    return {};
}

// Runs

answer session::execute(const fields& given, const view& payload, bool waits) {
    const auto run = made_run(given);
    const auto memory = given.number("bo") ? buffer_of(given) : nullptr;
    const auto held = run->hold();
    launch what{};
    uint64_t taken = 0, made = 0;
    for (const piece& one : given.pieces("inputs")) {
        if (!memory) throw error("a launch with inputs or outputs names the buffer in which they lie");
        memory->check(one.bytes, one.offset);
        what.inputs.push_back({reinterpret_cast<uint64_t>(payload.data) + taken, one.bytes, one.offset});
        taken += one.bytes;
        if (taken > payload.bytes) break;
    }
    const std::vector<piece> outputs = given.pieces("outputs");
    for (const piece& one : outputs) {
        if (!memory) throw error("a launch with inputs or outputs names the buffer in which they lie");
        memory->check(one.bytes, one.offset);
        made += one.bytes;
        if (made > card_protocol::MOST_BYTES) throw std::bad_alloc();
    }
    if (taken != payload.bytes)
        throw error("the inputs of a launch do not have the " + std::to_string(payload.bytes) +
                    " bytes that were sent");
    set_arguments(*run, given);
    if (!waits) return {run->start()};
    what.timeout_ms = static_cast<unsigned>(given.number("timeout_ms", card_protocol::MOST_TIMEOUT_MS));
    what.reads_status = given.flag("reads_status");
    what.traced = given.flag("traced");
    std::vector<view> results;
    for (const piece& one : outputs) {
        const auto block = std::make_shared<memory_block>(one.bytes);
        results.push_back({block->data(), one.bytes, block});
        what.outputs.push_back({reinterpret_cast<uint64_t>(block->data()), one.bytes, one.offset});
    }
    bool completed = false;
    answer result{run->execute(what, memory ? memory->memory.get() : nullptr, completed)};
    if (completed) result.payload = std::move(results);
    return result;
}

std::shared_ptr<session_run> session::made_run(const fields& given) {
    const uint64_t number = given.number("run");
    bool known = false;
    {
        std::lock_guard lock(mutex_);
        known = objects_.count(number) > 0;
    }
    if (known) return find<session_run>(given, "run");
    const auto made = std::make_shared<session_run>(find<served_kernel>(given, "kernel"), closed_);
    add(number, made);
    return made;
}

void session::set_arguments(session_run& run, const fields& given) {
    for (const auto& [index, value] : given.arguments()) {
        uint64_t number = 0;
        const bool pair = value->kind() == fields::value::type::array && value->as_array("").size() == 2;
        const auto* kind = pair ? &value->as_array("")[0] : nullptr;
        if (!kind || kind->kind() != fields::value::type::string || kind->as_string("") != "bo") {
            run.set_scalar(index, *value);
            continue;
        }
        std::shared_ptr<buffer> found;
        if (whole(value->as_array("")[1], card_protocol::MOST_BYTES, number)) {
            std::lock_guard lock(mutex_);
            const auto at = objects_.find(number);
            if (at != objects_.end())
                if (const auto* held = std::get_if<std::shared_ptr<buffer>>(&at->second)) found = *held;
        }
        if (!found) throw error("argument " + std::to_string(index) + " of a launch names no bo of this session");
        run.set_buffer(index, found->memory);
    }
}

}  // namespace card_server
