// Where a process is in its schedule: see control.hpp.
#include "control.hpp"

namespace sim::cosim {

control::control() = default;
control::~control() = default;

void control::begin_run(std::uint32_t token) {
    straight = 0;
    inner = nullptr;
    if (own && own->runs) {
        if (!runs) runs = std::make_unique<loop>(*this, *own->runs);
        inner = runs.get();
        base = std::max(base, runs->next());
        post(token, 1);
        runs->begin();
        return;
    }
    post(token, 1);
    reach(base);
}

void control::end_run(std::uint32_t token) {
    if (runs) {
        add({runs->end(), token, kind::POST, question::EMPTY, 2});
        base = runs->next();
        return;
    }
    finish_code();
    post(token, 2);
    base++;
}

void control::finish_code() {
    if (!code) return;
    base += std::max<cycle>(state_used, code->states - straight);
    straight = code->states;
    state_used = false;
}

void control::await_regions() {
    for (const auto& one : std::exchange(open_regions, {})) await(one.second, 0);
}

void control::flush() {
    whole().net.resolve_to(lane, base);
    whole().wake();
    while (!whole().net.done(lane)) pause(-1);
}

void control::hold_back() {
    const struct lane& l = whole().net.lanes[lane];
    while (__builtin_expect(l.events.size() - l.next > AHEAD && l.events[l.next].at < l.floor, 0)) pause(-1);
}

std::string control::waiting(int) const {
    const network& net = whole().net;
    const struct lane& l = net.lanes[lane];
    if (l.blocked_on == UINT32_MAX || l.blocked_by == kind::AWAIT) return "for other processes";
    const fifo_times& f = net.fifos[l.blocked_on];
    return l.blocked_by == kind::WRITE
               ? "to write '" + f.name + "', which is full (depth " + std::to_string(f.depth) + ")"
               : "to read '" + f.name + "', which is empty";
}

void control::pause(int why) {
    process& me = self();
    whole().waiting[lane] = &me;
    suspend(me, *this, why);
}

// The static time of an access in a line of the source. last: of the FIFO's last access of this kind, one a cycle.
cycle control::access_time(unsigned line, char way, cycle& last) {
    if (!open_regions.empty()) await_regions();
    loop* pipeline = inner ? inner->pipeline() : nullptr;
    const scope* there = pipeline ? pipeline->body() : code;
    const access* known = nullptr;
    if (there)
        for (const access& one : there->accesses)
            if (one.line == line && one.way == way) known = &one;
    if (!known) whole().unknown_accesses++;
    const cycle offset = known ? known->offset : way == 'W' && pipeline ? there->depth - 1 : 0;
    cycle at;
    if (pipeline) {
        at = std::max({pipeline->at() + offset, last + 1, not_before});
        pipeline->used(at);
    } else {
        if (offset > straight) base += offset - straight, straight = offset;
        at = base = std::max({base, last + 1, not_before});
        state_used = true;
    }
    used = at;
    return last = at;
}

bool control::inner_pipeline() const {
    for (loop* l = inner; l; l = l->outer())
        if (l->pipeline()) return true;
    return false;
}

std::int64_t control::ask(std::uint32_t fifo, question what, unsigned line, char way, cycle& last) {
    cycle before = last;  // a question is no access
    const cycle at = std::max(access_time(line, way, before), whole().net.lanes[lane].settled);
    network& net = whole().net;
    net.add(lane, {at, fifo, kind::ASK, what, 0});
    net.lanes[lane].answer = -1;
    net.resolve_to(lane, at);
    net.resolve_head(lane);
    whole().wake();
    while (net.lanes[lane].answer < 0) pause(-1);
    return net.lanes[lane].answer;
}

loop::loop(unsigned line, const char*) : c_(current()), line_(line) {
    if (!c_) return;
    outer_ = c_->inner;
    c_->inner = this;
    if (outer_ && outer_->pipeline_ && outer_->how() != mode::NEST) {  // unrolled in a pipeline
        pipeline_ = outer_->pipeline_;
        return;
    }
    plan_ = find();
    if (!plan_) return;
    c_->first_state();
    if (plan_->how == mode::SEQUENTIAL) {
        saved_code_ = std::exchange(c_->code, plan_);
        saved_straight_ = std::exchange(c_->straight, 0);
        return;
    }
    c_->await_regions();
    pipeline_ = outer_ && outer_->pipeline_ ? outer_->pipeline_ : this;
    if (pipeline_ == this) enter();
}

loop::loop(control& c, const loop_schedule& plan)
    : c_(&c), line_(plan.line), pipeline_(this), plan_(&plan), of_runs_(true) {
    enter();
}

loop::~loop() noexcept(false) {
    if (!c_ || of_runs_) return;
    c_->inner = outer_;
    if (!plan_ || std::uncaught_exceptions()) return;
    if (plan_->how == mode::SEQUENTIAL) {
        c_->await_regions();
        c_->finish_code();
        c_->code = saved_code_;
        c_->straight = saved_straight_;
    } else if (pipeline_ == this) {
        leave();
    } else {
        return;
    }
    if (outer_ && outer_->plan_ && outer_->plan_->how == mode::SEQUENTIAL) c_->base++;  // leaving it takes a state
    c_->reach(c_->base);
}

const loop_schedule* loop::find() const {
    std::vector<unsigned> nest;
    for (const loop* around = outer_; around; around = around->outer_) nest.push_back(around->line_);
    return schedule::of_run().find(c_->own, line_, nest);
}

void loop::enter() {
    for (const burst& one : plan_->bursts) {
        const std::uint32_t port = port_of(one);
        (one.way == 'R' ? beats_ : writes_).push_back(port);
        if (one.way == 'R') c_->add({c_->base, port, kind::REQUEST, question::EMPTY, 0});
    }
    for (const std::uint32_t port : writes_) beats_.push_back(port);
    c_->base += plan_->request;
    begin_ = at_ = c_->base;
    body_ = plan_;
}

void loop::leave() {
    const scope* last = body_ ? body_ : plan_;
    c_->base = iterations_ ? begin_ + (iterations_ - 1) * ii_ + last->depth : begin_ + 1;
    if (!iterations_) return;
    c_->base = std::max(c_->base, last_ + 1) + plan_->response;
    for (const std::uint32_t port : writes_) c_->add({c_->base, port, kind::REQUEST, question::EMPTY, 1});
}

std::uint32_t loop::port_of(const burst& one) const {
    simulation& all = whole();
    const std::string key = one.way + one.port;
    const auto known = all.ports.find(key);
    if (known != all.ports.end()) return known->second;
    all.net.ports.push_back({one.port, one.way == 'W', one.interval, 0, 0});
    return all.ports[key] = static_cast<std::uint32_t>(all.net.ports.size() - 1);
}

bool loop::pass() {
    if (!pipeline_ && ++tests_ > UNROLLED) c_->reach(++c_->base);
    return true;
}

}  // namespace sim::cosim
