// Random strided copies, gathers and resizes against plain references.
#include "core.hpp"

#include <algorithm>

#include "tb/tb.hpp"

namespace {

using namespace fpga;

struct tensor_index {
    int i[6];
};

template <class F>
void each(const int32_t* size, int dims, tensor_index& at, F body, int from = 0) {
    if (from == dims) {
        body();
        return;
    }
    for (at.i[from] = 0; at.i[from] < size[from]; at.i[from]++) each(size, dims, at, body, from + 1);
}

int64_t address(int64_t base, const int32_t* stride, const tensor_index& at, int dims) {
    for (int d = 0; d < dims; d++) base += int64_t(at.i[d]) * stride[d];
    return base;
}

// Strides for the dimensions in a random order, with gaps at random; the size of the buffer.
int64_t lay_out(const int32_t* size, int dims, int32_t* stride, tb::random_source& random, bool shuffled) {
    std::vector<int> order;
    for (int d = 0; d < dims; d++) order.insert(order.begin() + (shuffled ? random.integer(0, d) : 0), d);
    int64_t next = random.chance(0.15) ? 2 : 1;
    for (int d : order) {
        stride[d] = static_cast<int32_t>(next);
        next *= size[d];
        if (random.chance(0.2)) next += random.integer(0, 5);
    }
    return next;
}

template <class Command, class Run>
void run_slices(tb::report& report, const Command& c, tb::memory& arena, tb::memory& weights, int round, Run run,
                uint32_t expected = STATUS_OK) {
    const uint32_t slices = round % 2 ? 3 : 1;
    uint32_t status = STATUS_OK;
    for (uint32_t slice = 0; slice < slices; slice++) {
        const uint32_t s = run(c, nullptr, arena.region(), weights.region(), slice, slices);
        if (s != STATUS_OK) status = s;
    }
    report.check(status == expected, "status " + std::to_string(status));
    report.check(arena.stray() < 0, "stores outside its output at " + std::to_string(arena.stray()));
}

void run_move(tb::report& report, tb::random_source& random, int round) {
    tb::memory arena, weights;
    move_command c = {};
    std::string name = "move";
    for (int d = 0; d < 6; d++) c.dims[d] = random.pick({1, 1, 2, 3, 5, d == round % 6 ? 64 : 1});
    c.dims[random.integer(0, 5)] = random.pick({1, 16, 17, 33, 100, random.chance(0.05) ? 9001 : 31});
    for (int d = 0; d < 6; d++) name += " " + std::to_string(c.dims[d]);
    c.from_weights = random.chance(0.3);
    tb::memory& source = c.from_weights ? weights : arena;
    const bool filling = random.chance(0.15);
    c.fill = 2.5f;
    c.input = ABSENT;
    if (!filling) {
        const int64_t floats = lay_out(c.dims, 6, c.in_stride, random, true);
        c.input = source.allocate_random(floats, random);
        for (int d = 0; d < 6; d++) {
            if (random.chance(0.1)) {
                c.in_stride[d] = 0;
            } else if (random.chance(0.1)) {
                c.input += static_cast<uint32_t>((c.dims[d] - 1) * c.in_stride[d]);
                c.in_stride[d] = -c.in_stride[d];
            }
        }
    }
    c.output = arena.allocate(lay_out(c.dims, 6, c.out_stride, random, random.chance(0.3)));
    report.begin(name + (filling ? " fill" : ""));
#ifndef __SYNTHESIS__
    report.bounded(c, fpga::move_bounds, arena, weights);
#endif
    arena.watch();
    tensor_index at;
    each(c.dims, 6, at, [&] { arena.allow(address(c.output, c.out_stride, at, 6), 1); });
    run_slices(report, c, arena, weights, round, fpga::move);
    each(c.dims, 6, at, [&] {
        const float got = arena[address(c.output, c.out_stride, at, 6)];
        const float want = filling ? c.fill : source[address(c.input, c.in_stride, at, 6)];
        report.check(std::memcmp(&got, &want, sizeof got) == 0, "wrong element");
    });
}

// A buffer of `bytes` random bytes; its offset in bytes.
int64_t random_bytes(tb::memory& memory, tb::random_source& random, int64_t bytes) {
    const int64_t begin = 4 * int64_t{memory.allocate((bytes + 3) / 4)};
    for (int64_t i = 0; i < bytes; i++) reinterpret_cast<uint8_t*>(memory.region())[begin + i] = random.integer(0, 255);
    return begin;
}

std::vector<uint8_t> bytes_of_region(tb::memory& memory) {
    const uint8_t* first = reinterpret_cast<const uint8_t*>(memory.region());
    return std::vector<uint8_t>(first, first + 4 * memory.size());
}

// Copies and gathers of elements of one and two bytes leave every byte outside their output as it was.
void run_narrow(tb::report& report, tb::random_source& random, int round) {
    tb::memory arena, weights;
    const bool gathers = random.chance(0.3);
    const int dims = gathers ? 4 : 6;
    const int32_t format = random.integer(FORMAT_BF16, FORMAT_I8), bytes = bytes_of(format),
                  limit = random.integer(1, 9);
    int32_t size[6], from[6], to[6], index[4];
    for (int d = 0; d < dims; d++) size[d] = random.pick({1, 1, 2, 3, d == round % dims ? 70 : 1});
    size[random.integer(0, dims - 1)] = random.pick({1, 16, 33, 130, random.chance(0.05) ? 9001 : 31});
    const bool in_weights = random.chance(0.3), filling = !gathers && random.chance(0.15);
    tb::memory& source = in_weights ? weights : arena;
    const int64_t read = lay_out(size, dims, from, random, true) * (gathers ? limit : 1);
    const int64_t input = random_bytes(source, random, read * bytes) / bytes;
    const int64_t written = lay_out(size, dims, to, random, random.chance(0.3));
    const int64_t output = random_bytes(arena, random, written * bytes) / bytes;
    const int32_t row_stride = static_cast<int32_t>(read / limit), pattern = 0x1234;
    int64_t indices = 0;
    tensor_index at;
    if (gathers) {
        indices = arena.allocate(lay_out(size, 4, index, random, false));
        each(size, 4, at, [&] {
            const int32_t i = random.integer(0, limit - 1);
            std::memcpy(&arena[address(indices, index, at, 4)], &i, sizeof i);
        });
    }
    report.begin(std::string(gathers ? "gather" : "move") + " of " + std::to_string(bytes) + " bytes");
    std::vector<uint8_t> expected = bytes_of_region(arena);
    const std::vector<uint8_t> given = bytes_of_region(source);
    each(size, dims, at, [&] {
        int64_t place = address(input, from, at, dims);
        if (gathers) place += int64_t{int_at(arena.region(), address(indices, index, at, 4))} * row_stride;
        const uint8_t* element = filling ? reinterpret_cast<const uint8_t*>(&pattern) : &given[place * bytes];
        std::memcpy(&expected[address(output, to, at, dims) * bytes], element, bytes);
    });
    arena.watch();
    arena.allow(0, arena.size());
    if (gathers) {
        gather_command c = {};
        c.table = input;
        c.index = indices;
        c.output = output;
        c.table_in_weights = in_weights;
        c.limit = limit;
        c.row_stride = row_stride;
        c.format = format;
        std::copy(size, size + 4, c.dims);
        std::copy(from, from + 4, c.table_stride);
        std::copy(index, index + 4, c.index_stride);
        std::copy(to, to + 4, c.out_stride);
#ifndef __SYNTHESIS__
        report.bounded(c, fpga::gather_bounds, arena, weights);
#endif
        run_slices(report, c, arena, weights, round, gather);
    } else {
        move_command c = {};
        c.input = filling ? place_t{ABSENT} : input;
        c.output = output;
        c.from_weights = in_weights;
        c.format = format;
        c.fill = from_bits(ivec16(pattern))[0];
        std::copy(size, size + 6, c.dims);
        std::copy(from, from + 6, c.in_stride);
        std::copy(to, to + 6, c.out_stride);
#ifndef __SYNTHESIS__
        report.bounded(c, fpga::move_bounds, arena, weights);
#endif
        run_slices(report, c, arena, weights, round, fpga::move);
    }
    report.check(bytes_of_region(arena) == expected, "a byte is not as it should be");
}

// NCHW to padded NHWC and back, with patterns that are NaNs of all kinds: a copy keeps every bit.
void run_layouts(tb::report& report, tb::random_source& random, int round) {
    tb::memory arena, weights;
    const int channels = random.pick({1, 3, 16, 20, 64}), pixels = random.pick({1, 9, 49, 196, 1000});
    const int row = round_up(channels, 16);
    move_command c = {};
    const int32_t dims[6] = {1, 1, 1, 2, pixels, channels}, planar[6] = {0, 0, 0, pixels * channels, 1, pixels};
    const int32_t interleaved[6] = {0, 0, 0, pixels * row, row, 1};
    const bool back = random.chance(0.5);
    std::copy(dims, dims + 6, c.dims);
    std::copy(planar, planar + 6, back ? c.out_stride : c.in_stride);
    std::copy(interleaved, interleaved + 6, back ? c.in_stride : c.out_stride);
    const int64_t planar_floats = 2 * pixels * channels, interleaved_floats = 2 * pixels * row;
    c.input = arena.allocate(back ? interleaved_floats : planar_floats);
    c.output = arena.allocate(back ? planar_floats : interleaved_floats);
    tensor_index at;
    each(c.dims, 6, at, [&] {
        const uint32_t pattern = random.chance(0.5) ? 0x7f800001u + random.integer(0, 4000000)
                                                    : random.integer(0, 1 << 30);
        std::memcpy(&arena[address(c.input, c.in_stride, at, 6)], &pattern, 4);
    });
    report.begin((back ? "NHWC to NCHW " : "NCHW to NHWC ") + std::to_string(channels) + "x" + std::to_string(pixels));
    arena.watch();
    each(c.dims, 6, at, [&] { arena.allow(address(c.output, c.out_stride, at, 6), 1); });
    run_slices(report, c, arena, weights, round, fpga::move);
    each(c.dims, 6, at, [&] {
        const bool same = std::memcmp(&arena[address(c.output, c.out_stride, at, 6)],
                                      &arena[address(c.input, c.in_stride, at, 6)], 4) == 0;
        report.check(same, "wrong pattern");
    });
}

void run_gather(tb::report& report, tb::random_source& random, int round) {
    tb::memory arena, weights;
    gather_command c = {};
    for (int d = 0; d < 4; d++) c.dims[d] = random.pick({1, 2, 3, 7, d == 3 ? 40 : 5});
    const bool rows = random.chance(0.6);  // whole rows of a table, as an embedding; otherwise element by element
    c.limit = random.integer(1, 20);
    c.table_in_weights = random.chance(0.5);
    tb::memory& source = c.table_in_weights ? weights : arena;
    int64_t table_floats;
    if (rows) {
        const int pitch = c.dims[3] + random.pick({0, 3});
        c.row_stride = pitch;
        c.table_stride[3] = 1;
        table_floats = int64_t(c.limit) * pitch;
        c.index_stride[2] = 1;
        c.index_stride[1] = c.dims[2];
        c.index_stride[0] = c.dims[2] * c.dims[1];
    } else {
        table_floats = lay_out(c.dims, 4, c.table_stride, random, true);
        c.row_stride = static_cast<int32_t>(table_floats);
        table_floats *= c.limit;
        lay_out(c.dims, 4, c.index_stride, random, true);
    }
    c.table = source.allocate_random(table_floats, random);
    int64_t index_floats = 1;
    for (int d = 0; d < 4; d++) index_floats += int64_t(c.dims[d] - 1) * c.index_stride[d];
    c.index = arena.allocate(index_floats);
    c.output = arena.allocate(lay_out(c.dims, 4, c.out_stride, random, random.chance(0.3)));
    const bool bad = random.chance(0.2);
    tensor_index at;
    const auto index_of = [&] { return address(c.index, c.index_stride, at, 4); };
    bool any_bad = false;
    each(c.dims, 4, at, [&] {
        int32_t i = random.integer(0, c.limit - 1);
        if (bad && random.chance(0.1)) i = random.pick({-1, c.limit, INT32_MAX, INT32_MIN});
        std::memcpy(&arena[index_of()], &i, sizeof i);
    });
    report.begin("gather " + std::to_string(c.dims[0]) + "x" + std::to_string(c.dims[1]) + "x" +
                 std::to_string(c.dims[2]) + "x" + std::to_string(c.dims[3]) + (rows ? " rows" : " elements"));
#ifndef __SYNTHESIS__
    report.bounded(c, fpga::gather_bounds, arena, weights);
#endif
    const auto index = [&] { return int_at(arena.region(), index_of()); };
    arena.watch();
    each(c.dims, 4, at, [&] {
        if (index() >= 0 && index() < c.limit)
            arena.allow(address(c.output, c.out_stride, at, 4), 1);
        else
            any_bad = true;
    });
    run_slices(report, c, arena, weights, round, gather, any_bad ? STATUS_INDEX_RANGE : STATUS_OK);
    each(c.dims, 4, at, [&] {
        if (index() < 0 || index() >= c.limit) return;
        const float want = source[address(c.table, c.table_stride, at, 4) + int64_t(index()) * c.row_stride];
        report.check(arena[address(c.output, c.out_stride, at, 4)] == want, "wrong element");
    });
}

void run_resample(tb::report& report, tb::random_source& random, int round) {
    tb::memory arena, weights;
    resample_command c = {};
    c.mode = random.pick({RESAMPLE_NEAREST, RESAMPLE_BILINEAR});
    c.batch = random.integer(1, 2);
    c.channels = random.pick({1, 3, 16, 20, 48});
    c.in_height = random.integer(1, 9);
    c.in_width = random.integer(1, 9);
    c.out_height = random.integer(1, 20);
    c.out_width = random.integer(1, 20);
    c.align_corners = c.mode == RESAMPLE_BILINEAR && random.chance(0.5);
    const int in[2] = {c.in_height, c.in_width}, out[2] = {c.out_height, c.out_width};
    for (int a = 0; a < 2; a++) {
        c.scale[a] = static_cast<float>(in[a]) / static_cast<float>(out[a]);
        if (c.align_corners)
            c.scale[a] = out[a] > 1 ? static_cast<float>(in[a] - 1) / static_cast<float>(out[a] - 1) : 0.0f;
    }
    const bool dense = random.chance(0.3);
    c.in_stride[2] = c.out_stride[2] = dense ? c.channels : round_up(c.channels, 16);
    c.in_stride[1] = c.in_stride[2] * c.in_width;
    c.out_stride[1] = c.out_stride[2] * c.out_width;
    c.in_stride[0] = c.in_stride[1] * c.in_height;
    c.out_stride[0] = c.out_stride[1] * c.out_height;
    c.input = arena.allocate_random(int64_t(c.batch) * c.in_stride[0], random);
    c.output = arena.allocate(int64_t(c.batch) * c.out_stride[0]);
    report.begin("resample mode " + std::to_string(c.mode) + " " + std::to_string(in[0]) + "x" + std::to_string(in[1]) +
                 " to " + std::to_string(out[0]) + "x" + std::to_string(out[1]));
#ifndef __SYNTHESIS__
    report.bounded(c, fpga::resample_bounds, arena, tb::memory());
#endif
    arena.watch();
    const int32_t size[4] = {c.batch, c.out_height, c.out_width, c.channels};
    const int32_t to[4] = {c.out_stride[0], c.out_stride[1], c.out_stride[2], 1};
    tensor_index at;
    each(size, 4, at, [&] { arena.allow(address(c.output, to, at, 4), 1); });
    run_slices(report, c, arena, weights, round, resample);
    each(size, 4, at, [&] {
        const auto pixel = [&](int y, int x) {
            return double(arena[c.input + int64_t(at.i[0]) * c.in_stride[0] + int64_t(y) * c.in_stride[1] +
                                int64_t(x) * c.in_stride[2] + at.i[3]]);
        };
        double want;
        if (c.mode == RESAMPLE_NEAREST) {
            const auto source = [&](int a, int i) {
                return std::min(int(std::floor(float(i) * c.scale[a])), in[a] - 1);
            };
            want = pixel(source(0, at.i[1]), source(1, at.i[2]));
        } else {
            int low[2], high[2];
            double share[2];
            for (int a = 0; a < 2; a++) {
                const double i = at.i[1 + a], scale = c.scale[a];
                const double position = c.align_corners ? i * scale : std::max((i + 0.5) * scale - 0.5, 0.0);
                low[a] = std::min(int(position), in[a] - 1);
                high[a] = std::min(low[a] + 1, in[a] - 1);
                share[a] = std::min(position - low[a], 1.0);
            }
            want = (1 - share[0]) * ((1 - share[1]) * pixel(low[0], low[1]) + share[1] * pixel(low[0], high[1])) +
                   share[0] * ((1 - share[1]) * pixel(high[0], low[1]) + share[1] * pixel(high[0], high[1]));
        }
        report.close(arena[address(c.output, to, at, 4)], want, c.mode == RESAMPLE_NEAREST ? 0 : 1e-5, "pixel");
    });
}

// Rows of narrow elements in turns, as a shuffle of channels takes them: some more than are taken at once, and long ones.
void run_interleaved(tb::report& report, tb::random_source& random, int round) {
    tb::memory arena, weights;
    const int32_t format = random.integer(FORMAT_BF16, FORMAT_I8), bytes = bytes_of(format);
    const int32_t rows = random.integer(2, 6), images = random.integer(1, 5);
    const int32_t length = random.pick({1, 15, 58, 64, 116, 131, random.chance(0.1) ? 2100 : 7});
    const int32_t apart = length + random.pick({0, 0, 3}), image = rows * apart + random.pick({0, 5});
    move_command c = {};
    c.format = format;
    c.input = static_cast<place_t>(random_bytes(arena, random, int64_t{images} * image * bytes) / bytes);
    const int32_t dims[6] = {1, 1, 1, images, length, rows}, from[6] = {1, 1, 1, image, 1, apart},
                  to[6] = {1, 1, 1, length * rows + 1, rows, 1};
    c.output = static_cast<place_t>(random_bytes(arena, random, int64_t{images} * (length * rows + 1) * bytes) / bytes);
    std::copy(dims, dims + 6, c.dims);
    std::copy(from, from + 6, c.in_stride);
    std::copy(to, to + 6, c.out_stride);
    report.begin("move of " + std::to_string(rows) + " rows in turns, " + std::to_string(bytes) + " bytes");
    std::vector<uint8_t> expected = bytes_of_region(arena);
    tensor_index at;
    each(dims, 6, at, [&] {
        std::memcpy(&expected[address(c.output, to, at, 6) * bytes], &expected[address(c.input, from, at, 6) * bytes],
                    static_cast<size_t>(bytes));
    });
    arena.watch();
    arena.allow(0, arena.size());
    run_slices(report, c, arena, weights, round, fpga::move);
    report.check(bytes_of_region(arena) == expected, "wrong bytes");
}

}  // namespace

int main(int argc, char** argv) {
    tb::report report("move");
    tb::random_source random(5);
    for (int round = 0; round < tb::share_of(1500, argc, argv); round++) run_move(report, random, round);
    for (int round = 0; round < tb::share_of(600, argc, argv); round++) run_narrow(report, random, round);
    for (int round = 0; round < tb::share_of(200, argc, argv); round++) run_interleaved(report, random, round);
    for (int round = 0; round < tb::share_of(100, argc, argv); round++) run_layouts(report, random, round);
    for (int round = 0; round < tb::share_of(600, argc, argv); round++) run_gather(report, random, round);
    for (int round = 0; round < tb::share_of(300, argc, argv); round++) run_resample(report, random, round);
    return report.finish();
}
