// Dataflow regions of a co-simulation, by the names that xclbin_build/dataflow.py writes into sources, and the calls of the
// top function.
#pragma once
#include <algorithm>
#include <cstddef>
#include <exception>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fifo.hpp"
#include "result.hpp"

namespace sim {

// The name of what processes share by turns; null for streams, and structures of streams, which nobody can copy.
template <class T_>
constexpr const char* array_name(const T_&, const char* name) {
    return std::is_copy_constructible<std::remove_all_extents_t<T_>>::value ? name : nullptr;
}

namespace cosim {

// The clocks of processes, which they keep from one run to the next.
inline control& control_of(std::uint32_t lane) {
    static std::map<std::uint32_t, std::unique_ptr<control>> all;
    std::unique_ptr<control>& one = all[lane];
    if (!one) {
        one = std::make_unique<control>();
        one->lane = lane;
        whole().controls.push_back(one.get());
    }
    return *one;
}

}  // namespace cosim

class region : public stall_cause {
public:
    explicit region(const char* name) : name_(name), parent_(self()), above_(cosim::current()) {
        unwinding_ = std::uncaught_exceptions();
        if (!above_) return;
        key_ = std::to_string(above_->lane) + "/" + name;
        begins_ = cosim::whole().net.new_token();
        above_->post(begins_, 0);
        above_->reach(above_->base + 1);
    }
    region(const region&) = delete;
    region& operator=(const region&) = delete;
    ~region() noexcept(false) { join(); }

    const std::string& key() const { return key_; }

    // A process. arrays: variables that it shares with others by turns, as memories of two blocks.
    template <class F_>
    void run(const char* call, F_ body, std::initializer_list<const char*> arrays = {}) {
        start(call, arrays, [this, body](process& p, cosim::control* c) {
            begin(p, c);
            body();
            if (c) end(*c, p);
        });
    }
    // A process that runs again and again, and ends with the region.
    template <class F_>
    void task(const char* call, F_ body) {
        start(call, {}, [this, body](process& p, cosim::control* c) {
            p.endless = true;
            if (--alive_ == 0) fibers().wake(parent_);
            for (bool first = true;; first = false) {
                if (c && first) begin(p, c);
                body();
                if (!c) continue;
                c->await_regions();
                c->finish_code();
                c->straight = 0;
                c->reach(c->base);
                c->hold_back();
            }
        });
    }
    void join() {
        if (std::exchange(joined_, true)) return;
        const bool unwinding = std::uncaught_exceptions() > unwinding_;
        if (unwinding && alive_) fibers().fail(std::make_exception_ptr(cancelled()));
        while (alive_) suspend(parent_, *this, 0, false);
        end_tasks();
        if (above_ && !fibers().failed()) {
            // The next run of the region begins when its first process has ended, and the others have begun.
            for (const member& m : members_) {
                if (m.p->endless) continue;
                above_->open_regions[m.c->lane] = m.ended;
                above_->await(&m == &members_.front() ? m.ended : m.began, 0);
            }
            above_->base++;
            above_->straight = 0;
        }
        const bool failed = fibers().failed();
        members_.clear();
        if (!failed) return;
        if (!fibers().at_root()) {
            if (!unwinding) throw cancelled();
            return;
        }
        const std::exception_ptr failure = fibers().take_failure();
        if (!unwinding) std::rethrow_exception(failure);
    }

    std::string cause(int) const override { return "processes of " + name_; }
    std::string waiting(int) const override { return "for processes of " + name_; }

private:
    struct member {
        std::unique_ptr<process> p;
        cosim::control* c;
        std::uint32_t began, ended;
        std::vector<std::string> arrays;
    };

    template <class F_>
    void start(const char* call, std::initializer_list<const char*> arrays, F_ body) {
        if (fibers().failed()) return;
        // `call`: the function, and in brackets what its call names.
        std::string name(call), named;
        if (name.find('(') != std::string::npos) named = " " + name.substr(name.rfind('(') + 1);
        name = name.substr(0, name.rfind('('));
        while (!name.empty() && name.back() == ' ') name.pop_back();
        const std::string plain = name;
        if (!fibers().at_root()) name = parent_.name() + "/" + name;
        members_.push_back({std::make_unique<process>(name), nullptr, 0, 0, {}});
        member& m = members_.back();
        for (const char* array : arrays)
            if (array) m.arrays.emplace_back(array);
        alive_++;
        if (above_) {
            cosim::simulation& all = cosim::whole();
            const std::string key = key_ + "/" + std::to_string(members_.size());
            const cosim::part* own = cosim::schedule::of_run().find(plain);
            m.c = &cosim::control_of(all.lane_of(key, name, name_));
            m.c->own = own ? own : above_->own;
            m.c->code = own;
            if (!named.empty()) named.back() = ' ';
            all.net.lanes[m.c->lane].names = named;
            m.began = all.net.new_token();
            m.ended = all.net.new_token();
        }
        process& p = *m.p;
        p.control = m.c;
        const std::size_t number = members_.size() - 1;
        p.set_body([this, number, &p, body] {
            detail::current = &p;
            struct leave {
                region& of;
                process& p;
                ~leave() {
                    p.ended = true;
                    for (const member& other : of.members_)
                        if (!other.arrays.empty()) fibers().wake(*other.p);
                    if (!p.endless && --of.alive_ == 0) fibers().wake(of.parent_);
                }
            } at_end{*this, p};
            wait_for_arrays(number);
            body(p, static_cast<cosim::control*>(p.control));
        });
        fibers().start(p);
        detail::current = &parent_;
    }
    member& of(const process& p) {
        return *std::find_if(members_.begin(), members_.end(), [&p](const member& m) { return m.p.get() == &p; });
    }
    // Times of its start: of the region, of its own run before, and of those that it shares an array with. Such an array is
    // two blocks: the run before last of a later process must have ended.
    void begin(process& p, cosim::control* c) {
        if (!c) return;
        member& m = of(p);
        c->await(begins_, 0);
        bool before = true;
        for (const member& other : members_) {
            if (&other == &m) before = false;
            else if (before && shares(m, other)) c->await(other.ended, 0);
        }
        for (const auto& one : c->blocks) c->await(one.second, 0);
        c->post(m.began, 1);
        c->straight = 0;
        c->inner = nullptr;
        c->reach(c->base);
    }
    void end(cosim::control& c, process& p) {
        member& m = of(p);
        c.await_regions();
        c.finish_code();
        c.post(m.ended, 2);
        c.ends.push_back(m.ended);
        for (const member& other : members_) {
            if (&other == &m) break;
            if (other.c && shares(m, other) && c.ends.size() > 1) other.c->blocks[c.lane] = c.ends[c.ends.size() - 2];
        }
        c.base++;
        c.reach(c.base);
    }
    static bool shares(const member& one, const member& other) {
        for (const std::string& name : one.arrays)
            if (std::find(other.arrays.begin(), other.arrays.end(), name) != other.arrays.end()) return true;
        return false;
    }
    // Values: those that share an array run one after the other.
    void wait_for_arrays(std::size_t number) {
        if (members_[number].arrays.empty()) return;
        for (std::size_t i = 0; i < number; i++)
            while (shares(members_[number], members_[i]) && !members_[i].p->ended) suspend(*members_[number].p, *this, 0);
    }
    void end_tasks() {
        const auto is_task = [](const member& m) { return m.p->endless; };
        if (std::none_of(members_.begin(), members_.end(), is_task)) return;
        while (!fibers().failed() && (fibers().others_ready(false) || cosim::whole().net.answer_first())) {
            cosim::whole().wake();
            give_way(parent_);
        }
        for (const member& m : members_)
            if (m.p->endless) fibers().cancel(*m.p);
        while (std::any_of(members_.begin(), members_.end(), [](const member& m) { return !m.p->ended; })) give_way(parent_);
    }

    std::string name_, key_;
    process& parent_;
    cosim::control* above_;
    std::uint32_t begins_ = 0;
    std::deque<member> members_;
    std::size_t alive_ = 0;
    bool joined_ = false;
    int unwinding_ = 0;
};

namespace cosim {

// A call of the top function by the test bench.
class top_call {
public:
    explicit top_call(const char* name) : alive_(std::uncaught_exceptions()) {
        process& me = self();
        if (me.control) return;  // it calls itself, or a process does
        simulation& all = whole();
        record& r = record::of_run();
        r.open(name);
        control& c = control_of(all.lane_of("top", name, ""));
        c_ = &c;
        me.control = c_;
        c.own = schedule::of_run().find(name);
        c.code = c.own;
        c.straight = 0;
        begin_ = all.net.new_token();
        c.post(begin_, 1);
        c.reach(c.base);
        fibers().set_idle_work(&r);
    }
    top_call(const top_call&) = delete;
    ~top_call() noexcept(false) {
        if (!c_) return;
        struct leave {
            ~leave() {
                fibers().set_idle_work(nullptr);
                detail::root().control = nullptr;
            }
        } at_end;
        if (std::uncaught_exceptions() > alive_) return;
        control& c = *c_;
        record::call made{begin_, {}};
        const bool region_last = !c.open_regions.empty();
        for (const auto& one : std::exchange(c.open_regions, {})) made.ends.push_back(one.second);
        if (!region_last) c.finish_code();
        const std::uint32_t end = whole().net.new_token();
        c.post(end, 2);
        if (!region_last) made.ends.push_back(end);
        if (!region_last) c.base++;
        c.flush();
        for (const std::uint32_t token : made.ends) {  // processes run on behind the first
            while (whole().net.tokens[token] == UNKNOWN) {
                if (fibers().get_idle_work()->advance()) continue;
                throw deadlock("the design waits for ever");
            }
        }
        record::of_run().calls.push_back(std::move(made));
    }

private:
    control* c_ = nullptr;
    std::uint32_t begin_ = 0;
    int alive_;
};

}  // namespace cosim

template <class T_, class = void>
struct has_fifo : std::false_type {};
template <class T_>
struct has_fifo<T_, decltype(static_cast<void>(std::declval<T_&>().fifo()))> : std::true_type {};
template <class T_, class = void>
struct has_step : std::false_type {};
template <class T_>
struct has_step<T_, decltype(static_cast<void>(std::declval<T_&>().step()))> : std::true_type {};

// What a region declares: a stream gets its depth, and a channel between one process and several is a process itself.
template <class T_>
void declare(region& of, T_& declared, std::size_t depth, const std::string& name) {
    if constexpr (std::is_array<T_>::value) {
        std::size_t number = 0;
        for (auto& element : declared) declare(of, element, depth, name + "[" + std::to_string(number++) + "]");
    } else if constexpr (has_step<T_>::value) {
        declare(of, declared.in, 0, name + ".in");
        declare(of, declared.out, 0, name + ".out");
        of.task(name.c_str(), [&declared] { declared.step(); });
    } else if constexpr (has_fifo<T_>::value) {
        declared.fifo().limit(of.key(), depth ? depth : T_::hardware_depth(), name);
    }
}

}  // namespace sim
