// The schedule of a design, as `xclbin-build cosim` writes it: the loops of each process, and in which cycle of an
// iteration streams are read and written. It is a text file with a record in each line.
//
// - `P name states` is a process. States are cycles of its code outside of loops.
// - `F` and the fields of `L` is the process as a loop over its runs: a pipelined function.
// - `L line mode ii depth states factor request response nest` is a loop. The nest has the lines of the loops around it.
// - `A line way offset` is an access of the last loop, or of the process. The way is R, W or Q.
// - `B way interval port` is a burst of the last loop. The interval is in cycles from beat to beat.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
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
    std::unique_ptr<loop_schedule> runs;  // of a pipelined function
};

class schedule {
public:
    // Of the file that the environment names; empty without one.
    static const schedule& of_run() {
        static const schedule whole(std::getenv("FPGA_COSIM_SCHEDULE"));
        return whole;
    }

    // A process by the text of its call; templates by their name alone, if the whole is not there.
    const part* find(const std::string& call) const;

    // A loop of a process by its line. nest: lines of the loops around it, as they run. Where a loop was inlined several
    // times, the one whose nest fits best.
    const loop_schedule* find(const part* own, unsigned line, const std::vector<unsigned>& nest) const;

private:
    explicit schedule(const char* path);

    std::map<std::string, std::unique_ptr<part>> parts_;
};

}  // namespace sim::cosim
