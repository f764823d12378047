// The schedule of a design, as `xclbin-build cosim` writes it: the loops of each process, and in which cycle of an
// iteration streams are read and written. A text file, a record a line:
//
//   P name states                                  a process; cycles of its code outside of loops
//   L line mode ii depth states factor request response nest   a loop; nest: lines of the loops around it, or -
//   A line way offset                              an access of the last loop, or of the process: R, W or Q
//   B way interval port                            a burst of the last loop: cycles from beat to beat
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace sim::cosim {

// PIPELINED: iterations start `ii` cycles apart. NEST: one pipeline with the loop in it. SEQUENTIAL: one iteration behind
// the other, with `states` cycles of code beside the loops in it.
enum class mode : char { PIPELINED = 'P', NEST = 'N', SEQUENTIAL = 'S' };

struct access {
    unsigned line;
    char way;
    int offset;
};
struct burst {
    char way;
    double interval;
    std::string port;
};
struct scope {
    int states = 0, depth = 1;
    std::vector<access> accesses;
};
struct loop_schedule : scope {
    unsigned line = 0;
    mode how = mode::PIPELINED;
    int ii = 1, factor = 1, request = 0, response = 0;
    std::vector<unsigned> nest;
    std::vector<burst> bursts;
};
struct part : scope {
    std::string name;
    std::vector<std::unique_ptr<loop_schedule>> loops;
};

class schedule {
public:
    // Of the file that the environment names; empty without one.
    static const schedule& of_run() {
        static const schedule whole(std::getenv("FPGA_COSIM_SCHEDULE"));
        return whole;
    }

    // A process by the text of its call; templates by their name alone, if the whole is not there.
    const part* find(const std::string& call) const {
        const auto whole = parts_.find(call);
        if (whole != parts_.end()) return whole->second.get();
        const std::string name = plain(call);
        for (const auto& one : parts_)
            if (plain(one.first) == name) return one.second.get();
        return nullptr;
    }

    // A loop of a process by its line. nest: lines of the loops around it, as they run. Where a loop was inlined several
    // times, the one whose nest fits best.
    const loop_schedule* find(const part* own, unsigned line, const std::vector<unsigned>& nest) const {
        const loop_schedule* best = own ? fitting(*own, line, nest) : nullptr;
        if (!best && own) best = fitting(*own, 0, nest);  // a loop whose line clang has lost
        for (auto one = parts_.begin(); !best && one != parts_.end(); ++one) best = fitting(*one->second, line, nest);
        return best;
    }

private:
    explicit schedule(const char* path) {
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
            } else if (tag == "L" && current) {
                current->loops.push_back(std::make_unique<loop_schedule>());
                loop = current->loops.back().get();
                char how = 'P';
                std::string nest;
                words >> loop->line >> how >> loop->ii >> loop->depth >> loop->states >> loop->factor >>
                    loop->request >> loop->response >> nest;
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
    static std::string plain(const std::string& name) {
        const std::string head = name.substr(0, name.find('<'));
        const std::size_t colon = head.rfind(':');
        return colon == std::string::npos ? head : head.substr(colon + 1);
    }
    static const loop_schedule* fitting(const part& own, unsigned line, const std::vector<unsigned>& nest) {
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

    std::map<std::string, std::unique_ptr<part>> parts_;
};

}  // namespace sim::cosim
