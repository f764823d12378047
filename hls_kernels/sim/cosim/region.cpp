// Regions and calls of the top function: see region.hpp.
#include "region.hpp"

#include <algorithm>
#include <map>

#include "result.hpp"

namespace sim {

region::region(const char* name) : name_(name), parent_(self()), above_(cosim::current()) {
    unwinding_ = std::uncaught_exceptions();
    if (!above_) return;
    key_ = std::to_string(above_->lane) + "/" + name;
    begins_ = cosim::whole().net.new_token();
    above_->post(begins_, 0);
    above_->reach(above_->base + 1);
}

void region::run(const char* call, std::function<void()> body, std::initializer_list<const char*> arrays) {
    start(call, arrays, [this, body](process& p, cosim::control* c) {
        begin(p, c);
        body();
        if (c) end(*c, p);
    });
}

void region::task(const char* call, std::function<void()> body) {
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

void region::join() {
    if (std::exchange(joined_, true)) return;
    const bool unwinding = std::uncaught_exceptions() > unwinding_;
    if (unwinding && alive_) fibers().fail(std::make_exception_ptr(cancelled()));
    while (alive_) suspend(parent_, *this, 0, false);
    end_tasks();
    if (above_ && !fibers().failed()) {
        // The next run of the region begins when the processes that nothing in it feeds have ended.
        for (const member& m : members_) {
            if (m.p->endless) continue;
            above_->open_regions[m.c->lane] = m.ended;
            if (!is_fed(m)) above_->await(m.ended, 0);
        }
        above_->base++;
        above_->straight = 0;
    }
    const bool failed = fibers().failed();
    members_.clear();
    if (failed) fibers().throw_failure(unwinding);
}

void region::start(const char* call, std::initializer_list<const char*> arrays,
                   std::function<void(process&, cosim::control*)> body) {
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

void region::begin(process& p, cosim::control* c) {
    if (!c) return;
    member& m = of(p);
    c->await(begins_, 0);
    bool before = true;
    for (const member& other : members_) {
        if (&other == &m)
            before = false;
        else if (before && shares(m, other))
            c->await(other.ended, 0);
    }
    for (const auto& one : c->blocks) c->await(one.second, 0);
    c->begin_run(m.began);
}

void region::end(cosim::control& c, process& p) {
    member& m = of(p);
    c.await_regions();
    c.end_run(m.ended);
    c.ends.push_back(m.ended);
    for (const member& other : members_) {
        if (&other == &m) break;
        if (other.c && shares(m, other) && c.ends.size() > 1) other.c->blocks[c.lane] = c.ends[c.ends.size() - 2];
    }
    c.reach(c.base);
}

bool region::shares(const member& one, const member& other) {
    for (const std::string& name : one.arrays)
        if (std::find(other.arrays.begin(), other.arrays.end(), name) != other.arrays.end()) return true;
    return false;
}

// Whether a process before this one has an array or a stream in common with it.
bool region::is_fed(const member& m) const {
    const cosim::network& net = cosim::whole().net;
    for (const member& other : members_) {
        if (&other == &m) return false;
        if (shares(m, other)) return true;
        for (const std::string& channel : channels_) {
            const std::string word = " " + channel + " ";
            if (net.lanes[m.c->lane].names.find(word) == std::string::npos) continue;
            if (net.lanes[other.c->lane].names.find(word) != std::string::npos) return true;
        }
    }
    return false;
}
void region::wait_for_arrays(std::size_t number) {
    if (members_[number].arrays.empty()) return;
    for (std::size_t i = 0; i < number; i++)
        while (shares(members_[number], members_[i]) && !members_[i].p->ended) suspend(*members_[number].p, *this, 0);
}

void region::end_tasks() {
    const auto is_task = [](const member& m) { return m.p->endless; };
    if (std::none_of(members_.begin(), members_.end(), is_task)) return;
    while (!fibers().failed() && (fibers().others_ready(false) || cosim::whole().net.answer_first())) {
        cosim::whole().wake();
        give_way(parent_);
    }
    for (const member& m : members_)
        if (m.p->endless) fibers().cancel(*m.p);
    while (std::any_of(members_.begin(), members_.end(), [](const member& m) { return !m.p->ended; }))
        give_way(parent_);
}

auto region::of(const process& p) -> member& {
    return *std::find_if(members_.begin(), members_.end(), [&p](const member& m) { return m.p.get() == &p; });
}

namespace cosim {

control& control_of(std::uint32_t lane) {
    static std::map<std::uint32_t, std::unique_ptr<control>> all;
    std::unique_ptr<control>& one = all[lane];
    if (!one) {
        one = std::make_unique<control>();
        one->lane = lane;
        whole().controls.push_back(one.get());
    }
    return *one;
}

top_call::top_call(const char* name) : alive_(std::uncaught_exceptions()) {
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
    begin_ = all.net.new_token();
    c.begin_run(begin_);
    fibers().set_idle_work(&r);
}

top_call::~top_call() noexcept(false) {
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
    const std::uint32_t end = whole().net.new_token();
    if (region_last) {
        c.post(end, 2);
    } else {
        c.end_run(end);
        made.ends.push_back(end);
    }
    if (c.runs) {  // the next call begins before this one ends
        record::of_run().calls.push_back(std::move(made));
        return;
    }
    c.flush();
    for (const std::uint32_t token : made.ends) {  // processes run on behind the first
        while (whole().net.tokens[token] == UNKNOWN) {
            if (fibers().get_idle_work()->advance()) continue;
            throw deadlock("the design waits for ever");
        }
    }
    record::of_run().calls.push_back(std::move(made));
}

}  // namespace cosim
}  // namespace sim
