// Who reads and who writes what two processes share: one of each, and their names are in the report of a deadlock.
#pragma once
#include <cstdint>
#include <string>

#include "process.hpp"

namespace sim {

class ends {
public:
    // Throws error if another process that has not ended does the same. title: of what they share, in quotes.
    void read_by(const process& me, const std::string& title) { claim(reader_, me, title, "read"); }
    void written_by(const process& me, const std::string& title) { claim(writer_, me, title, "written"); }
    bool reads(const process& me) const { return me.id() == reader_.id; }
    bool writes(const process& me) const { return me.id() == writer_.id; }

    // "to read 'x', which is empty (depth 2, written by load)": what the reader of an empty one waits for, or the writer of
    // a full one. depth: in elements; 0: no limit.
    std::string waiting(bool empty, const std::string& title, std::size_t depth) const {
        const user& other = empty ? writer_ : reader_;
        std::string text = (empty ? "to read " : "to write ") + title + ", which is " + (empty ? "empty" : "full");
        text += depth ? " (depth " + std::to_string(depth) + ", " : " (";
        text += empty ? "written by " : "read by ";
        if (!other.id) return text + "nobody so far)";
        return text + other.name + (fibers().live(other.id) ? ")" : ", which has ended)");
    }

private:
    struct user {
        uint64_t id = 0;
        std::string name;
    };
    static void claim(user& u, const process& me, const std::string& title, const char* what) {
        if (u.id && fibers().live(u.id))
            throw error(title + " is " + what + " by two processes, '" + u.name + "' and '" + me.name() +
                        "'; give each a stream of its own.");
        u.id = me.id();
        u.name = me.name();
    }
    user reader_, writer_;
};

// A process that waits, until the scope ends.
class waiting_process {
public:
    waiting_process(process*& pointer, process& me) : pointer_(pointer) { pointer_ = &me; }
    ~waiting_process() { pointer_ = nullptr; }
    waiting_process(const waiting_process&) = delete;
    waiting_process& operator=(const waiting_process&) = delete;

    static void wake(process*& pointer) {
        process* const who = pointer;
        pointer = nullptr;
        fibers().wake(*who);
    }

private:
    process*& pointer_;
};

}  // namespace sim
