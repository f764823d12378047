// Random lists of commands of the vector side, what they have to leave in memory by plain loops, and the comparison.
#pragma once
#include <string>
#include <utility>

#include "../../tb/cuts.hpp"
#include "../check.hpp"
#include "../cpu.hpp"
#include "casts.hpp"
#include "reference.hpp"

namespace bench {

using engine::vector_command;

// A map, or as many as there are heads.
struct matrix {
    int rows, channels, heads[2];
    uint32_t at;
    int32_t head[2];  // lines to the next
    int producer;
};

class list {
public:
    explicit list(uint64_t seed) : maps(seed * 2 + 1), parameters(seed * 2 + 2) {}

    region maps, parameters;

    int size() const { return static_cast<int>(commands_.size()); }
    std::vector<line_t> lines() const {
        std::vector<line_t> all(commands_.size() * 4, line_t());
        for (std::size_t i = 0; i < commands_.size(); i++)
            if (commands_[i].opcode == engine::ENGINE_VECTOR)
                std::memcpy(static_cast<void*>(&all[4 * i]), &commands_[i], sizeof(vector_command));
            else
                std::memcpy(static_cast<void*>(&all[4 * i]), &copies_[i], sizeof(mac_command));
        return all;
    }

    void add_random(random_source& random) {
        const matrix in = some_map(random);
        if (in.heads[0] * in.heads[1] == 1 && random.chance(0.15)) return add_maximum(in, random);
        if (random.chance(0.25)) return add_interleaved(in, random);
        if (random.chance(0.25)) return add_gathered(in, random);
        if (random.chance(0.1)) return add_constant(random);
        if (random.chance(0.2)) return add_cast(in, random);
        vector_command c = {};
        c.opcode = engine::ENGINE_VECTOR;
        c.slices = 1;
        c.operation = random.integer(0, 3);
        c.channels = in.channels;
        c.pixels = in.rows;
        c.input = in.at;
        c.input_after = after(in);
        c.other = engine::NO_OPERAND;
        for (int d = 0; d < 2; d++) {
            c.heads[d] = in.heads[d];
            c.input_head[d] = in.head[d];
        }
        const bool may = c.operation != engine::VECTOR_NORM && random.chance(0.5);
        if (c.operation == engine::VECTOR_MULTIPLY || may) add_other(c, in, random);
        matrix out = in;
        out.producer = size();
        if (!random.chance(0.15)) place(out);  // else in place
        c.output = out.at;
        for (int d = 0; d < 2; d++) c.output_head[d] = out.head[d];
        set_numbers(c, random);
        choose_group(c, random);
        for (matrix& m : maps_)
            if (m.at == out.at) m.producer = out.producer;  // in place
        maps_.push_back(out);
        append(c, mac_command());
    }

    // What memory holds after the commands, one after the other.
    void reference(std::vector<line_t>& memory) const {
        for (std::size_t i = 0; i < commands_.size(); i++)
            if (commands_[i].opcode == engine::ENGINE_VECTOR)
                reference_of(commands_[i], all_parameters(), memory);
            else  // checked by the MAC side's bench
                engine::cpu_mac(copies_[i], memory.data(), all_parameters().data()).run();
    }
    void run_cpu(std::vector<line_t>& memory, uint32_t slices) const {
        for (std::size_t i = 0; i < commands_.size(); i++)
            for (uint32_t slice = 0; slice < slices; slice++)
                if (commands_[i].opcode == engine::ENGINE_VECTOR)
                    engine::cpu_vector(commands_[i], memory.data(), all_parameters().data()).run(slice, slices);
                else
                    engine::cpu_mac(copies_[i], memory.data(), all_parameters().data()).run(slice, slices);
    }
    // All of memory is compared: nothing but the results may have changed.
    std::string difference(const std::vector<line_t>& got, const std::vector<line_t>& expected) const {
        for (std::size_t i = 0; i < got.size(); i++)
            for (int k = 0; k < engine::LINE_BYTES; k++) {
                if (got[i].byte[k] == expected[i].byte[k]) continue;
                char text[200];
                std::snprintf(text, sizeof text, "line %zu, byte %d: %d instead of %d", i, k,
                              static_cast<int8_t>(got[i].byte[k]), static_cast<int8_t>(expected[i].byte[k]));
                return std::string(text) + described(i);
            }
        return "";
    }

private:
    int32_t after(const matrix& m) const { return m.producer < 0 ? 0 : size() - m.producer; }
    const std::vector<line_t>& all_parameters() const { return const_cast<list*>(this)->parameters.lines(); }

    void append(const vector_command& c, const mac_command& copy) {
        commands_.push_back(c);
        copies_.push_back(copy);
        if (c.opcode != engine::ENGINE_VECTOR) return;
        if (const char* why = engine::refusal(c)) {
            std::printf("vector: a random command %s\n", why);
            std::abort();
        }
    }
    void place(matrix& m) {
        const int32_t one = static_cast<int32_t>(engine::map_lines(m.rows, m.channels));
        m.head[1] = one;
        m.head[0] = one * m.heads[1];
        m.at = maps.allocate(int64_t{m.heads[0]} * m.head[0]);
    }
    // One that a command made, if there is one, or a new one; sometimes with rows that are all the same or extreme.
    matrix some_map(random_source& random) {
        if (!maps_.empty() && random.chance(0.6))
            return maps_[static_cast<std::size_t>(random.integer(0, static_cast<int>(maps_.size()) - 1))];
        matrix m = {};
        m.rows = random.pick({1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 49});
        m.channels = random.pick({1, 2, 15, 16, 17, 32, 40, 64, 100, 129});
        if (random.chance(0.2)) m.rows = random.integer(1, 80);
        if (random.chance(0.05)) {  // whole groups of as many rows as there are at most
            m.rows = random.integer(100, 600);
            m.channels = random.pick({1, 16, 17});
        }
        m.heads[0] = random.pick({1, 1, 1, 2});
        m.heads[1] = random.pick({1, 1, 2, 3});
        m.producer = -1;
        place(m);
        if (random.chance(0.3)) fill(m, random);
        return m;
    }
    void fill(const matrix& m, random_source& random) {
        const int kind = random.integer(0, 3);
        int8_t* first = reinterpret_cast<int8_t*>(maps.lines().data() + m.at);
        const int8_t same = static_cast<int8_t>(random.pick({-128, 0, 1, 127}));
        for (int64_t i = 0; i < int64_t{m.heads[0]} * m.head[0] * engine::LINE_BYTES; i++)
            first[i] = kind == 0   ? same
                       : kind == 1 ? static_cast<int8_t>(random.pick({-128, 127}))
                       : kind == 2 ? static_cast<int8_t>(random.chance(0.05) ? 127 : -128)
                                   : static_cast<int8_t>(random.integer(-2, 1));
    }
    void add_other(vector_command& c, const matrix& in, random_source& random) {
        const bool shared = random.chance(0.3), all_heads = random.chance(0.3);
        for (const matrix& m : maps_)
            if (!shared && m.rows == in.rows && m.channels == in.channels && m.heads[0] == in.heads[0] &&
                m.heads[1] == in.heads[1] && random.chance(0.5)) {
                c.other = m.at;
                c.other_after = after(m);
                for (int d = 0; d < 2; d++) c.other_head[d] = m.head[d];
                return;
            }
        matrix m = in;
        if (shared) m.rows = 1;
        if (shared) c.flags |= engine::VECTOR_SHARED;
        if (all_heads) m.heads[0] = m.heads[1] = 1;
        place(m);
        int8_t* first = reinterpret_cast<int8_t*>(maps.lines().data() + m.at);
        const double masked = random.pick({0, 1, 5, 9, 10}) / 10.0;
        if (c.operation == engine::VECTOR_SOFTMAX)
            for (int64_t i = 0; i < int64_t{m.heads[0]} * m.head[0] * engine::LINE_BYTES; i++)
                first[i] = static_cast<int8_t>(random.chance(masked) ? random.pick({1, -1, -128}) : 0);
        c.other = m.at;
        if (!all_heads)
            for (int d = 0; d < 2; d++) c.other_head[d] = m.head[d];
    }
    void set_numbers(vector_command& c, random_source& random) {
        c.input_zero = random.chance(0.5) ? 0 : random.integer(-128, 127);
        c.other_zero = random.chance(0.5) ? 0 : random.integer(-128, 127);
        c.zero = random.chance(0.4) ? 0 : random.integer(-128, 127);
        c.low = random.chance(0.7) ? -128 : random.integer(-128, 0);
        c.high = random.chance(0.7) ? 127 : random.integer(0, 127);
        c.other_factor = fpga::make_factor(random.real(-2, 2));
        const bool product = c.operation == engine::VECTOR_MULTIPLY;
        c.input_scale = fpga::make_channel(random.real(0, 2) / (product ? 64 : 1), 0, 1 << 17).scale;
        std::vector<line_t> params;
        if (c.operation == engine::VECTOR_SOFTMAX) {
            c.row_scale = static_cast<float>(random.pick({127, 128, 256, 200}));
            if (random.chance(0.4)) c.zero = -128;
            const double scale = random.real(0, 1) < 0.1 ? 3.0 : random.real(0.001, 0.2);
            params.assign(engine::EXPONENT_LINES, line_t());
            for (int i = 0; i < 256; i++)
                engine::set_bits32(
                    params[static_cast<std::size_t>(i / 16)], i % 16,
                    static_cast<uint32_t>(std::lrint(std::exp(-i * scale) * (1 << engine::EXPONENT_BITS))));
        } else if (c.operation == engine::VECTOR_NORM) {
            if (random.chance(0.3)) c.flags |= engine::VECTOR_UNCENTERED;
            c.epsilon = static_cast<float>(random.pick({1, 100000}) * 1e-5 * c.channels * c.channels);
            const int32_t blocks = (c.channels + 15) / 16;
            for (int32_t b = 0; b < 2 * blocks; b++) {
                line_t line = {};
                for (int k = 0; k < 16; k++)
                    engine::set_bits32(line, k,
                                       static_cast<uint32_t>(random.integer(-(60 << 17), 60 << 17) * (b % 2 ? 16 : 1)));
                params.push_back(line);
            }
        }
        if (random.chance(0.3)) {
            c.flags |= engine::VECTOR_TABLE;
            for (int l = 0; l < engine::TABLE_LINES; l++) {
                line_t line;
                for (uint8_t& b : line.byte) b = static_cast<uint8_t>(random.integer(0, 255));
                params.push_back(line);
            }
        }
        if (!params.empty()) c.params = parameters.put(params);
    }
    static void choose_group(vector_command& c, random_source& random) {
        c.group_lines = random.integer(1, random.chance(0.7) ? 12 : engine::VECTOR_ROWS / engine::BEAT);
        while (c.group_lines > 1 && engine::refusal(c)) c.group_lines--;
    }
    // Of the blocks of a map without heads, and another one of them; or of both halves of one map's rows.
    void add_interleaved(matrix in, random_source& random) {
        if (in.heads[0] * in.heads[1] != 1 || random.chance(0.2)) {  // more than streams hold
            in = {random.integer(300, 2500), random.pick({1, 16, 20}), {1, 1}, 0, {0, 0}, -1};
            place(in);
        }
        const int blocks = (in.channels + 15) / 16;
        vector_command c = {};
        c.opcode = engine::ENGINE_VECTOR;
        c.slices = 1;
        c.operation = engine::VECTOR_INTERLEAVE;
        c.channels = 16;
        c.low = -128;
        c.high = 127;
        // Turns that give each row of the output so many words of the input that all of it comes to be whole rows.
        std::vector<int> rows;
        for (int n = 1; n <= in.rows; n++)
            if (in.rows % n == 0) rows.push_back(n);
        const int count = rows[static_cast<std::size_t>(random.integer(0, static_cast<int>(rows.size()) - 1))];
        const int of_input = in.rows / count;
        c.turns[0] = random.integer(1, of_input);
        c.turns[1] = random.integer(1, 5);
        const int whole = of_input / c.turns[0], rest = of_input % c.turns[0];
        int of_other = whole * c.turns[1];
        if (!rest) of_other -= random.integer(0, c.turns[1] - (whole == 1));
        c.row = of_input + of_other;
        matrix other = in;
        other.rows = count * of_other;
        for (const matrix& m : maps_)
            if (m.rows == other.rows && m.channels == in.channels && m.heads[0] * m.heads[1] == 1) other = m;
        if (other.rows != in.rows || other.producer < 0 || other.at == in.at) other.producer = -1, place(other);
        matrix out = in;
        out.rows = count * c.row;
        out.producer = size();
        place(out);
        c.pixels = out.rows;
        c.taken[0] = in.rows;
        c.taken[1] = other.rows;
        c.heads[0] = 1;
        c.heads[1] = blocks;
        c.input = in.at;
        c.other = other.at;
        c.output = out.at;
        c.input_after = after(in);
        c.other_after = after(other);
        c.input_head[1] = static_cast<int32_t>(engine::map_lines(in.rows, 16));
        c.other_head[1] = static_cast<int32_t>(engine::map_lines(other.rows, 16));
        c.output_head[1] = static_cast<int32_t>(engine::map_lines(out.rows, 16));
        choose_group(c, random);
        maps_.push_back(out);
        append(c, mac_command());
    }
    // Runs of words of a map, or of none, block by block.
    void add_gathered(matrix in, random_source& random) {
        if (in.heads[0] * in.heads[1] != 1) {
            in = {random.integer(1, 300), random.pick({1, 16, 20, 40}), {1, 1}, 0, {0, 0}, -1};
            place(in);
        }
        matrix out = in;
        const bool transposed = random.chance(0.4);
        out.rows = random.integer(1, random.chance(0.8) ? 80 : 700);
        if (transposed) out.rows = (out.rows + 15) / 16 * 16;
        out.producer = size();
        place(out);
        vector_command c = {};
        c.opcode = engine::ENGINE_VECTOR;
        c.slices = 1;
        c.operation = transposed ? engine::VECTOR_TRANSPOSE : engine::VECTOR_GATHER;
        c.channels = 16;
        c.pixels = out.rows;
        c.low = -128;
        c.high = 127;
        c.heads[0] = 1;
        c.heads[1] = (in.channels + 15) / 16;
        const int skipped = random.integer(0, in.rows - 1);  // a source may begin within a line
        c.input = in.at * engine::BEAT + static_cast<uint32_t>(skipped);
        c.input_after = after(in);
        c.other = engine::NO_OPERAND;
        c.output = out.at;
        c.taken[0] = in.rows - skipped;
        c.input_head[1] = static_cast<int32_t>(engine::map_lines(in.rows, 16)) * engine::BEAT;
        if (random.chance(0.3)) c.input_head[1] = random.integer(0, skipped);
        c.output_head[1] = static_cast<int32_t>(engine::map_lines(out.rows, 16));
        if (random.chance(0.5)) {  // blocks are outer heads
            std::swap(c.heads[0], c.heads[1]);
            std::swap(c.input_head[0], c.input_head[1]);
            std::swap(c.output_head[0], c.output_head[1]);
        }
        c.group_lines = 1;
        const int most = random.pick({1, 3, 20, 200});
        std::vector<line_t> table;
        for (int left = (out.rows + engine::BEAT - 1) / engine::BEAT * engine::BEAT; left > 0; c.runs++) {
            const int source = random.integer(0, 1);
            const int rows = source == engine::GATHER_INPUT ? c.taken[0] : most;
            const int count = std::min({random.integer(1, most), left, rows});
            const int first = source == engine::GATHER_FILL ? 0 : random.integer(0, rows - count);
            if (c.runs % engine::LINE_RUNS == 0) table.push_back(line_t());
            engine::set_bits32(table.back(), c.runs % engine::LINE_RUNS * 4,
                               static_cast<uint32_t>(source) << engine::GATHER_SHIFT | static_cast<uint32_t>(first));
            engine::set_bits32(table.back(), c.runs % engine::LINE_RUNS * 4 + 1, static_cast<uint32_t>(count));
            engine::set_bits32(table.back(), c.runs % engine::LINE_RUNS * 4 + 2,
                               static_cast<uint32_t>(random.integer(0, 1 << 30)) * 5);
            left -= count;
        }
        c.params = parameters.put(table);
        choose_group(c, random);
        maps_.push_back(out);
        append(c, mac_command());
    }
    // A map whose lines are parameters.
    void add_constant(random_source& random) {
        matrix out = {random.integer(1, 90), random.pick({1, 16, 40}), {1, 1}, 0, {0, 0}, size()};
        place(out);
        vector_command c = {};
        c.opcode = engine::ENGINE_VECTOR;
        c.slices = 1;
        c.operation = engine::VECTOR_CONSTANT;
        c.channels = 16;
        c.pixels = out.rows;
        c.low = -128;
        c.high = 127;
        c.heads[0] = 1;
        c.heads[1] = (out.channels + 15) / 16;
        c.other = engine::NO_OPERAND;
        c.output = out.at;
        c.output_head[1] = static_cast<int32_t>(engine::map_lines(out.rows, 16));
        std::vector<line_t> lines(static_cast<std::size_t>(c.heads[1] * c.output_head[1]));
        for (line_t& line : lines)
            for (uint8_t& b : line.byte) b = static_cast<uint8_t>(random.integer(0, 255));
        c.params = parameters.put(lines);
        choose_group(c, random);
        maps_.push_back(out);
        append(c, mac_command());
    }
    // Between float32 and the blocks of a map without heads; float32 may come from a command before.
    void add_cast(const matrix& in, random_source& random) {
        const int blocks = (in.channels + 15) / 16;
        const bool quantizes = in.heads[0] * in.heads[1] != 1 || random.chance(0.5);
        real_map reals = {(in.rows + 3) / 4 * 4, blocks, 0, size()};
        if (quantizes && random.chance(0.2)) reals.words = 4 * random.integer(70, 600);
        vector_command c = random_cast(quantizes, reals.words, blocks, random);
        matrix out = {reals.words, in.channels, {1, 1}, 0, {0, 0}, size()};
        if (quantizes) {
            reals = new_reals(reals.words, blocks, c.row_scale, maps, random);
            for (const real_map& made : reals_)
                if (made.words == out.rows && made.heads == blocks && random.chance(0.8)) reals = made;
            place(out);
            maps_.push_back(out);
        } else {
            reals.at = maps.allocate(int64_t{reals.words} * blocks);
            reals_.push_back(reals);
        }
        c.input = quantizes ? reals.at : in.at;
        c.input_after = quantizes ? (reals.producer < 0 ? 0 : size() - reals.producer) : after(in);
        c.output = quantizes ? out.at : reals.at;
        choose_group(c, random);
        append(c, mac_command());
    }
    // A pooling of the MAC side, for the order between both.
    void add_maximum(const matrix& in, random_source& random) {
        matrix out = in;
        out.producer = size();
        place(out);
        mac_command c = {};
        c.opcode = engine::ENGINE_MAC;
        c.operation = engine::OPERATION_MAXIMUM;
        c.weight_kind = engine::WEIGHT_DIAGONAL;
        c.residual = c.sums = engine::NO_OPERAND;
        c.pixel_channels = 16;
        c.in_blocks = c.out_blocks = (in.channels + 15) / 16;
        c.in_height = c.out_height = 1;
        c.in_width = c.out_width = in.rows;
        c.kernel[0] = 1;
        c.kernel[1] = 3;
        c.padding[1] = 1;
        c.stride[0] = c.stride[1] = c.dilation[0] = c.dilation[1] = 1;
        c.heads[0] = c.heads[1] = c.images = 1;
        c.group_in = c.group_out = 16;
        c.tile_blocks = c.tile_depth = 1;
        c.pad = -128;
        c.low = -128;
        c.high = 127;
        c.input = in.at;
        c.input_after = after(in);
        c.output = out.at;
        std::vector<engine::channel_params> params(static_cast<std::size_t>(c.out_blocks) * 16,
                                                   {0, fpga::make_channel(random.real(0.5, 2), 0, 128).scale, 0});
        c.params = parameters.put(engine::pack_params(params));
        if (draw_cut(c, random)) return;
        maps_.push_back(out);
        append(vector_command(), c);
    }

    std::string described(std::size_t line) const {
        std::string text;
        for (std::size_t i = 0; i < commands_.size(); i++) {
            const vector_command& c = commands_[i];
            char one[200];
            std::snprintf(one, sizeof one,
                          "; command %zu: operation %d, flags %d, %d x %d, heads %d x %d, group %d, at %u", i,
                          c.opcode ? c.operation : -1, c.flags, c.pixels, c.channels, c.heads[0], c.heads[1],
                          c.group_lines, c.output);
            if (!c.opcode || c.output <= line) text += one;
        }
        return text;
    }

    std::vector<vector_command> commands_;
    std::vector<mac_command> copies_;  // of those of the MAC side
    std::vector<matrix> maps_;
    std::vector<real_map> reals_;
};

}  // namespace bench
