// Command lists out of layers, and the comparison of what became of them.
#pragma once
#include <functional>
#include <string>

#include "cuts.hpp"
#include "reference.hpp"

namespace bench {

// What a layer's result is to be, worked out of its operands as they lie in memory then: floats of the layers before have their
// own roundings, and what these may miss is no mistake of this layer.
struct expectation {
    tensor result;
    std::string what;
    std::function<std::vector<wanted>(std::vector<line_t>& memory)> wanted_in;  // by the result's index
};

class program {
public:
    explicit program(uint64_t seed) : maps(seed * 2 + 1), parameters(seed * 2 + 2), cuts_(~seed) {}

    region maps, parameters;
    std::vector<mac_command> commands;
    std::vector<expectation> expected;
    bool exact = false;  // floats as well have the same bits in both schedules
#if ENGINE_FUNCTIONS
    std::shared_ptr<const function> last_function;  // that a layer may share
#endif

    int next() const { return static_cast<int>(commands.size()); }

    // Adds a layer: its reference, its commands. Residual may be null. False: the memories are too small for it.
    bool add(const layer& l, const tensor& in, const weights& w, const tensor* residual, tensor& out,
             const std::string& what) {
        mac_command c = blank();
        c.operation = l.what == kind::maximum ? engine::OPERATION_MAXIMUM : engine::OPERATION_MULTIPLY;
        c.weight_kind = l.what == kind::depthwise ? engine::WEIGHT_DIAGONAL : engine::WEIGHT_PACKED;
        c.pixel_channels = in.pixel_channels;
        c.in_blocks = in.blocks();
        c.in_height = in.height;
        c.in_width = in.width;
        c.out_blocks = out.blocks();
        c.out_height = out.height;
        c.out_width = out.width;
        for (int d = 0; d < 2; d++) {
            c.kernel[d] = l.kernel[d];
            c.stride[d] = l.stride[d];
            c.padding[d] = l.padding[d];
            c.dilation[d] = l.dilation[d];
        }
        c.group_in = l.what == kind::dense ? w.inputs : 16;
        c.group_out = l.what == kind::dense ? w.outputs / l.groups : 16;
        c.images = in.images;
        c.input = in.at;
        c.input_image = in.image_lines;
        c.output = out.at;
        c.output_image = out.image_lines;
        c.input_after = after(in);
        c.pad = bits_of_pad(l, in);
        if (residual) {
            c.residual = residual->at;
            c.residual_image = residual->image_lines;
            c.residual_after = after(*residual);
        }
        set_epilogue(c, l);
        const uint32_t sums = maps.allocate(int64_t{in.images} * c.out_blocks * out.pixels());
        const random_parts_t drawn = draw_parts(c, cuts_, sums);
        if (drawn.parts.empty()) return refused(drawn, what);
        for (const part_t& part : drawn.parts) add_part(part, l, in, w, out);
        out.producer = next() - 1;
        remember(l, in, w, residual, out, what);
        return true;
    }

    // The product of a map's rows and another map, for each of `heads`: out[h] = a[h] * b[h]^T, or a[h] * b[h]. `depth`: of
    // the sums. Of channels that are heads side by side, each takes whole blocks. residual: an image for each head, one for
    // all, or null.
    bool add_product(const layer& l, const tensor& a, const tensor& b, bool transposed, int heads, int depth,
                     const tensor* residual, tensor& out, const std::string& what) {
        mac_command c = blank();
        const bool by_image = a.images == heads && heads > 1;  // each head's rows are an image, or a range of channels
        const int outputs = out.images == heads && heads > 1 ? out.channels : out.channels / heads;
        c.weight_kind = transposed ? engine::WEIGHT_TRANSPOSED : engine::WEIGHT_MAP;
        c.in_blocks = (depth + 15) / 16;
        c.in_height = c.out_height = 1;
        c.in_width = c.out_width = a.width;
        c.out_blocks = (outputs + 15) / 16;
        c.group_in = c.in_blocks * 16;
        c.group_out = c.out_blocks * 16;
        c.heads[1] = heads;
        c.input = a.at;
        c.input_head[1] = by_image ? a.image_lines : static_cast<int32_t>(engine::map_lines(a.pixels(), depth));
        c.weight = b.at;
        c.weight_head[1] = static_cast<int32_t>(engine::map_lines(b.pixels(), transposed ? outputs : depth));
        c.weight_plane = static_cast<int32_t>(engine::plane_lines(b.pixels()));
        c.output = out.at;
        c.output_head[1] = out.images == heads && heads > 1
                               ? out.image_lines
                               : static_cast<int32_t>(engine::map_lines(out.pixels(), outputs));
        c.input_after = after(a);
        c.weight_after = after(b);
        c.pad = bits_of_pad(l, a);
        c.weight_zero = b.zero;
        if (residual) {
            c.residual = residual->at;
            c.residual_head[1] = residual->images == heads ? residual->image_lines : 0;
            c.residual_after = after(*residual);
        }
        if (!engine::ROW_SUMS && b.zero != 0) return false;
        set_epilogue(c, l);
        const random_parts_t drawn = draw_parts(c, cuts_);
        if (drawn.parts.empty()) return refused(drawn, what);
        c = drawn.parts[0].c;
        std::vector<engine::channel_params> params(static_cast<std::size_t>(outputs));
        for (int o = 0; o < outputs; o++) {
            params[o].offset = static_cast<engine::sum_t>(c.in_blocks * 16 * a.zero * b.zero);
            set_channel(params[o], l, 0);
        }
        c.params = put_params(params, l);
        commands.push_back(c);
        out.producer = next() - 1;
        const bool adds = residual != nullptr;
        const tensor given = adds ? *residual : tensor();
        const auto wanted_in = [=](std::vector<line_t>& memory) {
            const tensor rows = read_tensor(memory, a), other = read_tensor(memory, b);
            const tensor added = adds ? read_tensor(memory, given) : tensor();
            const bool own = out.images == heads && heads > 1;
            std::vector<wanted> all(out.values.size());
            for (int h = 0; h < heads; h++)
                for (int m = 0; m < a.width; m++)
                    for (int o = 0; o < outputs; o++) {
                        exact_sum s;
                        for (int k = 0; k < depth; k++) {
                            const double x =
                                number_of(by_image ? rows.get(h, k, 0, m) : rows.get(0, h * depth + k, 0, m)) - a.zero;
                            const double y = number_of(transposed ? other.get(0, h * outputs + o, 0, k)
                                                                  : other.get(0, h * depth + k, 0, o)) -
                                             b.zero;
                            s.add(x * y);
                        }
                        const double r = adds ? number_of(added.get(added.images == heads ? h : 0, o, 0, m)) : 0;
                        all[own ? out.index(h, o, 0, m) : out.index(0, h * outputs + o, 0, m)] = finished(s, 0, r, adds,
                                                                                                          l);
                    }
            return all;
        };
        expected.push_back({out, what, wanted_in});
        return true;
    }

    // Compares memory with what is expected; a sentence about the first difference, or nothing.
    std::string differences(std::vector<line_t>& memory) const {
        for (const expectation& e : expected) {
            const std::vector<wanted> all = e.wanted_in(memory);
            for (int n = 0; n < e.result.images; n++)
                for (int c = 0; c < e.result.channels; c++)
                    for (int q = 0; q < e.result.pixels(); q++) {
                        const wanted& want = all[e.result.index(n, c, q / e.result.width, q % e.result.width)];
                        const element_t found = e.result.wide ? element_t(0) : element_at(memory, e.result, n, c, q);
                        const double got = number_at(memory, e.result, n, c, q);
                        if (e.result.wide ? want.is_near(got) : want.is(found)) continue;
                        char text[200];
                        std::snprintf(text, sizeof text,
                                      "image %d, channel %d, row %d, column %d: %.8g instead of %.8g", n, c,
                                      q / e.result.width, q % e.result.width, got, want.value);
                        return e.what + ": " + text;
                    }
        }
        return "";
    }

    // A layer that was refused though no memory is too small for it; a sentence, or nothing.
    const std::string& wrongly_refused() const { return wrongly_refused_; }

private:
    static mac_command blank() {
        mac_command c = {};
        c.opcode = engine::ENGINE_MAC;
        c.residual = c.sums = engine::NO_OPERAND;
        c.pixel_channels = 16;
        c.kernel[0] = c.kernel[1] = c.stride[0] = c.stride[1] = c.dilation[0] = c.dilation[1] = 1;
        c.heads[0] = c.heads[1] = c.images = 1;
        return c;
    }
    int32_t after(const tensor& t) const { return t.producer < 0 ? 0 : next() - t.producer; }
    static int32_t bits_of_pad(const layer& l, const tensor& in) {
#if ENGINE_ELEMENT == 0
        return l.what == kind::maximum ? -128 : in.zero;
#else
        (void)in;
        const uint32_t bits = l.what == kind::maximum ? 0xff800000u : 0;
        return static_cast<int32_t>(ENGINE_ELEMENT == 1 ? bits >> 16 : bits);
#endif
    }
    void set_epilogue(mac_command& c, const layer& l) {
        c.zero = l.zero;
        c.low = l.low;
        c.high = l.high;
        if (engine::ELEMENT != engine::ELEMENT_INT8) {
            c.low = static_cast<int32_t>(engine::bits_of(l.low_float));
            c.high = static_cast<int32_t>(engine::bits_of(l.high_float));
        }
        c.residual_factor = l.residual_factor;
        c.residual_zero = l.residual_zero;
        c.middle_factor = l.middle_factor;
        c.middle_zero = l.middle_zero;
#if ENGINE_FUNCTIONS
        if (l.function) {
            c.flags = engine::MAC_TABLE;
            c.table = put_function(l.function);
        }
#else
        c.flags = (l.middle ? engine::MAC_MIDDLE : 0) | (l.table.empty()  ? 0
                                                         : l.middle_table ? engine::MAC_MIDDLE_TABLE
                                                                          : engine::MAC_TABLE);
#endif
        if (l.wide) c.flags |= engine::MAC_WIDE;
    }
    // Beside what zero points add to the offset.
    static void set_channel(engine::channel_params& to, const layer& l, int channel) {
        const std::size_t at = static_cast<std::size_t>(channel);
#if ENGINE_ELEMENT == 0
        to.offset = engine::add_sums(to.offset, l.channels[at].offset);
        to.scale = l.channels[at].scale;
        to.bias = l.channels[at].bias;
#else
        to.scale = l.scale[at];
        to.bias = l.bias[at];
#endif
    }
#if ENGINE_FUNCTIONS
    // Layers of one function share it.
    uint32_t put_function(const std::shared_ptr<const function>& f) {
        for (const auto& known : functions_)
            if (known.first == f) return known.second;
        functions_.emplace_back(f, parameters.put(lines_of(*f)));
        return functions_.back().second;
    }
    std::vector<std::pair<std::shared_ptr<const function>, uint32_t>> functions_;
#endif
    uint32_t put_params(const std::vector<engine::channel_params>& params, const layer& l) {
        std::vector<line_t> lines = engine::pack_params(params);
        if (!l.table.empty()) {
            lines.resize(lines.size() + 4);
            std::memcpy(static_cast<void*>(&lines[lines.size() - 4]), l.table.data(), 256);
        }
        return parameters.put(lines);
    }
    void add_part(const part_t& part, const layer& l, const tensor& in, const weights& w, const tensor& out) {
        mac_command c = part.c;
        const int outputs = std::min(out.channels - part.first_out * 16, c.out_blocks * 16);
        const int inputs = std::min(in.channels - part.first_block * 16, c.in_blocks * 16);
        const auto weight = [&](int o, int ky, int kx, int i) {
            return w.get(o + part.first_out * 16, ky + part.first_row, kx,
                         i + part.first_block * 16 * (l.what == kind::dense));
        };
        if (l.what != kind::maximum) {
            // Of a part of a convolution of one group, the group's channels are the part's.
            mac_command packed = c;
            if (l.what == kind::dense && l.groups == 1) packed.group_in = c.in_blocks * 16;
            std::vector<line_t> lines = engine::pack_weights(packed, outputs, inputs, weight);
            c.weight = parameters.put(lines);
        }
        std::vector<engine::channel_params> params(static_cast<std::size_t>(outputs));
        for (int o = 0; o < outputs; o++) {
            // The first of several parts adds the offset of all; that of those behind it does not matter.
            double sum = 0;
            if (l.what != kind::maximum)
                for (int ky = 0; ky < w.rows; ky++)
                    for (int kx = 0; kx < w.columns; kx++)
                        for (int i = 0; i < w.inputs; i++) sum += number_of(w.get(o + part.first_out * 16, ky, kx, i));
            params[o].offset = static_cast<engine::sum_t>(l.what == kind::maximum ? 0 : -in.zero * sum);
            set_channel(params[o], l, o + part.first_out * 16);
        }
        c.params = put_params(params, l);
        // Parts follow each other: what the first waits for is as far away for the others, and nearer in commands.
        const int before = part.first_row || part.first_block ? next() - first_of_parts_ : 0;
        if (!before) first_of_parts_ = next();
        if (c.input_after) c.input_after += before;
        if (before && !part.first_out && part.c.sums != engine::NO_OPERAND) c.residual_after = 1;
        commands.push_back(c);
    }
    void remember(const layer& l, const tensor& in, const weights& w, const tensor* residual, const tensor& out,
                  const std::string& what) {
        const bool adds = residual != nullptr;
        const tensor added = adds ? *residual : tensor();
        const auto wanted_in = [=](std::vector<line_t>& memory) {
            const tensor input = read_tensor(memory, in), other = adds ? read_tensor(memory, added) : added;
            std::vector<wanted> all(out.values.size());
            for (int n = 0; n < out.images; n++)
                for (int o = 0; o < out.channels; o++)
                    for (int y = 0; y < out.height; y++)
                        for (int x = 0; x < out.width; x++)
                            all[out.index(n, o, y, x)] = finished(sum_at(l, input, w, n, o, y, x), o,
                                                                  adds ? number_of(other.get(n, o, y, x)) : 0, adds, l);
            return all;
        };
        expected.push_back({out, what, wanted_in});
    }
    // Of a command without parts: only a memory may be too small for it.
    bool refused(const random_parts_t& drawn, const std::string& what) {
        for (const std::string why : drawn.refusals) {
            bool by_memory = false;
            for (const char* of : {"memory", "window", "table"}) by_memory |= why.find(of) != std::string::npos;
            if (!by_memory) wrongly_refused_ = what + " " + why;
        }
        return false;
    }

    random_source cuts_;
    std::string wrongly_refused_;
    int first_of_parts_ = 0;
};

}  // namespace bench
