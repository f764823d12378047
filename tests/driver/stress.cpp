// Stress test of the device model without Python, for sanitizers (tests/driver/test_driver_sanitizer.py builds and runs it
// under ThreadSanitizer): 8 threads share two cards' compute units, lanes and banks. Usage: card_stress FILE.xclbin
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "card.hpp"
#include "error.hpp"
#include "kernel.hpp"

using namespace card_model;

namespace {

constexpr int THREADS = 8, ROUNDS = 40;

void require(bool condition, const char* what, const run& r) {
    if (condition) return;
    std::fprintf(stderr, "%s (%s: %s)\n", what, to_string(r.command().state()), r.command().error().c_str());
    std::exit(1);
}

void set_int(run& r, uint32_t argument, uint32_t value) { r.set_scalar(argument, &value, sizeof value); }

ert_state go(run& r, int round) {
    if (round % 2) return r.execute(60000);
    r.start();
    return r.wait(0);
}

void add(const std::shared_ptr<card>& on, const uuid& id, int round) {
    const uint32_t n = 100 + 37 * static_cast<uint32_t>(round);
    run r(std::make_shared<kernel>(on, id, "vadd", access_mode::shared));
    const buffer a(on, 4 * n, buffer_flags::normal, 0), b(on, 4 * n, buffer_flags::host_only, 0),
        out(on, 4 * n, buffer_flags::device_only, 0);
    std::vector<float> x(n, 1.5f), y(n, 2.0f), result(n, 0.0f);
    a.write(x.data(), 4 * n, 0);
    a.sync(direction::to_device, 4 * n, 0);
    b.write(y.data(), 4 * n, 0);
    r.set_buffer(0, a), r.set_buffer(1, b), r.set_buffer(2, out);
    set_int(r, 3, n);
    std::atomic<int> called{0};
    r.command().add_callback([&](ert_state) { ++called; });
    require(go(r, round) == ert_state::completed, "vadd", r);
    out.download(result.data(), 4 * n, 0);
    for (const float value : result) require(value == 3.5f, "vadd: a wrong sum", r);
    while (!called) std::this_thread::yield();  // it refers to this frame
}

void step(const std::shared_ptr<card>& on, const uuid& id, int round) {
    constexpr uint32_t N = 256, STEPS = 30;
    run r(std::make_shared<kernel>(on, id, "steps", access_mode::shared));
    const buffer data(on, 8 * N, buffer_flags::normal, static_cast<uint32_t>(round) % 2);
    std::vector<uint32_t> halves[2] = {std::vector<uint32_t>(N), std::vector<uint32_t>(N)};
    for (uint32_t i = 0; i < N; ++i) halves[0][i] = i;
    data.upload(halves[0].data(), 4 * N, 0);
    r.set_buffer(0, data);
    set_int(r, 1, N), set_int(r, 2, STEPS), set_int(r, 3, 12);
    require(go(r, round / 2) == ert_state::completed, "steps", r);
    for (uint32_t s = 0; s < STEPS; ++s)
        for (uint32_t i = 0; i < N; ++i) halves[(s + 1) % 2][i] = 2 * halves[s % 2][(i + N / 2 + 1) % N] + 1;
    std::vector<uint32_t> result(N);
    data.download(result.data(), 4 * N, 0);
    require(result == halves[STEPS % 2], "steps: a wrong result", r);
}

void cancel(const std::shared_ptr<card>& on, const uuid& id) {
    run r(std::make_shared<kernel>(on, id, "empty", access_mode::shared));
    r.start();
    const ert_state state = r.abort();
    require(state == ert_state::completed || state == ert_state::abort, "abort", r);
    r.start();  // and leave it: the card keeps what it needs
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    setenv("FPGA_DYNAMO_EMULATED_CARDS", "2", 1);
    setenv("FPGA_DYNAMO_LANES", "4", 1);
    try {
        const xclbin file = xclbin::from_file(argv[1]);
        const std::shared_ptr<card> cards[] = {card::open(0), card::open(1)};
        for (const auto& card : cards) card->load(file);
        std::vector<std::thread> threads;
        for (int t = 0; t < THREADS; ++t)
            threads.emplace_back([&, t] {
                for (int round = 0; round < ROUNDS; ++round) {
                    const auto& on = cards[(t + round) % 2];
                    add(on, file.id(), round);
                    step(on, file.id(), round);
                    cancel(on, file.id());
                    on->load(file);
                }
            });
        for (std::thread& thread : threads) thread.join();
        card::shut_down();
    } catch (const error& reason) {
        std::fprintf(stderr, "%s\n", reason.what());
        return 1;
    }
    std::puts("ok");
}
