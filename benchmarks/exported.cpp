// exported DIR CALLS THREADS: opens an exported model and calls it on zeros; times and memory as JSON, for exported.py.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fd_model.hpp"

namespace {

using clock_type = std::chrono::steady_clock;

double milliseconds_since(clock_type::time_point begin) {
    return std::chrono::duration<double, std::milli>(clock_type::now() - begin).count();
}

// Milliseconds for reading a file into memory, which the library cannot shorten.
double reading_ms(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY);
    struct stat about{};
    if (file < 0 || fstat(file, &about) != 0) return 0;
    const auto begin = clock_type::now();
    std::vector<char> memory(static_cast<size_t>(about.st_size));
    size_t done = 0;
    for (ssize_t got = 1; got > 0 && done < memory.size(); done += static_cast<size_t>(got))
        got = read(file, memory.data() + done, memory.size() - done);
    const double result = milliseconds_since(begin);
    close(file);
    return result;
}

// Of /proc/self/status, in kB.
long memory_kb(const std::string& key) {
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);)
        if (line.rfind(key + ":", 0) == 0) return std::strtol(line.c_str() + key.size() + 1, nullptr, 10);
    return 0;
}

struct caller {
    explicit caller(const fd::loaded_model& model) : model_(model) {
        for (const fd::port& one : model.inputs()) add(from_, one.dtype, one.shape);
        for (size_t k = 0; k < model.outputs().size(); ++k)
            add(to_, model.outputs()[k].dtype, model.output_shape(from_, k));
    }
    caller(const caller&) = delete;
    caller& operator=(const caller&) = delete;
    void call() { model_.run(from_, to_); }

private:
    void add(std::vector<fd::tensor>& list, fd_dtype dtype, const std::vector<int64_t>& shape) {
        size_t bytes = fd::element_bytes(dtype);
        for (const int64_t size : shape) bytes *= static_cast<size_t>(size);
        memory_.push_back(std::vector<char>(bytes));
        list.push_back({dtype, shape, memory_.back().data()});
    }

    const fd::loaded_model& model_;
    std::vector<std::vector<char>> memory_;
    std::vector<fd::tensor> from_, to_;
};

}  // namespace

int main(int count, char** arguments) {
    if (count != 4) return 2;
    const std::string directory = arguments[1];
    const int calls = std::atoi(arguments[2]), threads = std::atoi(arguments[3]);
    const double reading = reading_ms(directory + "/weights.bin");
    const long before_kb = memory_kb("VmRSS");
    const auto begin = clock_type::now();
    const fd::loaded_model model(directory);
    const double opened = milliseconds_since(begin);
    caller one(model);
    std::vector<double> times;
    for (int i = 0; i < calls + 3; ++i) {
        const auto start = clock_type::now();
        one.call();
        if (i >= 3) times.push_back(milliseconds_since(start));
    }
    std::sort(times.begin(), times.end());
    const long rss_kb = memory_kb("VmRSS"), anonymous_kb = memory_kb("RssAnon");
    std::vector<std::unique_ptr<caller>> callers;
    for (int i = 0; i < threads; ++i) callers.push_back(std::make_unique<caller>(model));
    const auto start = clock_type::now();
    std::vector<std::thread> workers;
    for (const auto& each : callers)
        workers.emplace_back([&each, calls] {
            for (int i = 0; i < calls; ++i) each->call();
        });
    for (std::thread& worker : workers) worker.join();
    const double together = milliseconds_since(start) / (calls * std::max(threads, 1));
    std::printf("{\"reading_ms\": %g, \"open_ms\": %g, \"call_ms\": %g, \"fastest_ms\": %g, \"threads_ms\": %g, "
                "\"before_kb\": %ld, \"rss_kb\": %ld, \"anonymous_kb\": %ld, \"highest_kb\": %ld}\n",
                reading, opened, times[times.size() / 2], times.front(), together, before_kb, rss_kb, anonymous_kb,
                memory_kb("VmHWM"));
}
