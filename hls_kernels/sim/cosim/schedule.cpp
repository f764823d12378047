// Reading a schedule: see schedule.hpp.
#include "schedule.hpp"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <utility>

namespace sim::cosim {

namespace {

std::string plain(const std::string& name) {
    const std::string head = name.substr(0, name.find('<'));
    const std::size_t colon = head.rfind(':');
    return colon == std::string::npos ? head : head.substr(colon + 1);
}
const loop_schedule* fitting(const part& own, unsigned line, const std::vector<unsigned>& nest) {
    const loop_schedule* best = nullptr;
    int most = INT32_MIN;
    for (const auto& one : own.loops) {
        if (one->line != line) continue;
        int fits = -static_cast<int>(one->nest.size());
        for (const unsigned outer : one->nest)
            for (const unsigned around : nest) fits += outer == around ? 2 : 0;
        if (fits > most) most = fits, best = one.get();
    }
    return best;
}

}  // namespace

const part* schedule::find(const std::string& call) const {
    const auto whole = parts_.find(call);
    if (whole != parts_.end()) return whole->second.get();
    const std::string name = plain(call);
    for (const auto& one : parts_)
        if (plain(one.first) == name) return one.second.get();
    return nullptr;
}

const loop_schedule* schedule::find(const part* own, unsigned line, const std::vector<unsigned>& nest) const {
    const loop_schedule* best = own ? fitting(*own, line, nest) : nullptr;
    if (!best && own) best = fitting(*own, 0, nest);  // a loop whose line clang has lost
    for (auto one = parts_.begin(); !best && one != parts_.end(); ++one) best = fitting(*one->second, line, nest);
    return best;
}

schedule::schedule(const char* path) {
    if (!path) return;
    std::ifstream file(path);
    part* current = nullptr;
    loop_schedule* loop = nullptr;
    for (std::string text; std::getline(file, text);) {
        std::istringstream words(text);
        std::string tag;
        words >> tag;
        if (tag == "P") {
            auto made = std::make_unique<part>();
            words >> made->name >> made->states;
            current = made.get();
            loop = nullptr;
            parts_.emplace(made->name, std::move(made));
        } else if ((tag == "L" || tag == "F") && current) {
            auto made = std::make_unique<loop_schedule>();
            loop = made.get();
            if (tag == "F")
                current->runs = std::move(made);
            else
                current->loops.push_back(std::move(made));
            char how = 'P';
            std::string nest;
            words >> loop->line >> how >> loop->ii >> loop->depth >> loop->states >> loop->factor >> loop->request >>
                loop->response >> nest;
            loop->how = static_cast<mode>(how);
            std::istringstream lines(nest == "-" ? "" : nest);
            for (std::string one; std::getline(lines, one, ',');)
                loop->nest.push_back(static_cast<unsigned>(std::stoul(one)));
        } else if (tag == "A" && current) {
            access one{};
            words >> one.line >> one.way >> one.offset;
            (loop ? static_cast<scope*>(loop) : current)->accesses.push_back(one);
        } else if (tag == "B" && loop) {
            burst one{};
            words >> one.way >> one.interval >> one.port;
            loop->bursts.push_back(one);
        }
    }
}

}  // namespace sim::cosim
