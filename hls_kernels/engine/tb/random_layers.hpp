// Random layers: shapes, numbers and epilogues, from the sizes that this engine has.
#pragma once
#include <algorithm>

#include "build.hpp"

namespace bench {

inline int outputs_along(int size, int kernel, int stride, int padding, int dilation) {
    return (size + 2 * padding - (kernel - 1) * dilation - 1) / stride + 1;
}

// `terms`: of a sum.
inline void random_epilogue(program& p, layer& l, int channels, double terms, const tensor* residual,
                            random_source& random) {
    (void)p;
#if ENGINE_ELEMENT == 0
    const bool plain = random.chance(0.15), huge = random.chance(0.03);
    const double goal = terms < 1 ? 1 : random.real(20, 150), spread = terms < 1 ? 1 : std::sqrt(terms) * 5400;
    const double greatest = std::fmax(1, terms) * 255 * 255;
    l.zero = random.chance(0.5) ? 0 : random.integer(-128, 127);
    if (random.chance(0.4)) l.low = std::max(-128, l.zero);
    if (random.chance(0.2)) l.high = random.integer(l.low, 127);
    if (residual) {
        l.residual_factor = fpga::make_factor(plain ? 0.25 : random.real(0.2, 2));
        l.residual_zero = random.chance(0.5) ? 0 : random.integer(-128, 127);
        l.middle = random.chance(0.3);
        l.middle_factor = fpga::make_factor(plain ? 0.5 : random.real(0.5, 2));
        l.middle_zero = random.chance(0.5) ? 0 : random.integer(-128, 127);
    }
    for (int o = 0; o < channels; o++) {
        // Products that end half way between two integers, such as are rounded alike whatever their shift, and huge ones, of
        // at most 2^52 units: make_channel keeps what is exact.
        const double usual = goal / spread * random.real(0.3, 1.2);
        const double scale = plain  ? std::exp2(-random.integer(1, 9))
                             : huge ? random.real(1, std::fmin(15, 0x1p30 / greatest))
                                    : usual;
        const double bias = plain ? random.integer(-80, 80) / 8.0 : random.real(-30, 30);
        l.channels.push_back(fpga::make_channel(scale, bias, greatest, 0, 512));
    }
    if (random.chance(0.2))
        for (int i = 0; i < 256; i++) l.table.push_back(static_cast<int8_t>(random.integer(-128, 127)));
    l.middle_table = l.middle && !l.table.empty() && random.chance(0.5);
#else
    (void)residual;
    const double spread = std::sqrt(std::fmax(1, terms)) * 0.33;
    for (int o = 0; o < channels; o++) {
        l.scale.push_back(static_cast<float>(random.real(0.5, 2) / spread));
        l.bias.push_back(static_cast<float>(random.real(-1, 1)));
    }
    if (random.chance(0.5)) l.low_float = 0;
    if (random.chance(0.2)) l.high_float = 0.5f;
#endif
#if ENGINE_FUNCTIONS
    // Of numbers around 1 some are in the table, some beside it.
    if (!p.last_function || random.chance(0.3))
        p.last_function = std::make_shared<const function>(random_function(random.integer(108, 127), random));
    if (random.chance(0.4)) l.function = p.last_function;
#endif
}

inline weights random_weights(const layer& l, int outputs, int inputs, bool extreme, random_source& random) {
    weights w;
    w.outputs = outputs;
    w.inputs = inputs;
    w.rows = l.kernel[0];
    w.columns = l.kernel[1];
    w.values.resize(static_cast<std::size_t>(outputs) * w.rows * w.columns * inputs);
    for (element_t& x : w.values) {
        x = random_element(random);
#if ENGINE_ELEMENT == 0
        if (extreme) x = -128;
#endif
    }
    (void)extreme;
    return w;
}

inline tensor random_tensor(region& maps, int images, int channels, int height, int width, bool extreme,
                            random_source& random, int pixel_channels = 16) {
    tensor t = make_tensor(maps, images, channels, height, width, pixel_channels);
    for (element_t& x : t.values) x = random_element(random);
#if ENGINE_ELEMENT == 0
    t.zero = extreme || random.chance(0.4) ? 0 : random.integer(-128, 127);
    if (extreme)
        for (element_t& x : t.values) x = -128;
#endif
    (void)extreme;
    put_tensor(maps, t);
    return t;
}

inline std::string described(const layer& l, const tensor& in, const tensor& out, bool residual) {
    static const char* const KINDS[] = {"dense", "depthwise", "maximum"};
    char text[300];
    std::snprintf(text, sizeof text,
                  "%s %dx%dx%dx%d%s -> %dx%dx%d, kernel %dx%d stride %d,%d padding %d,%d dilation %d,%d "
                  "groups %d%s%s",
                  KINDS[static_cast<int>(l.what)], in.images, in.channels, in.height, in.width,
                  in.pixel_channels < 16 ? " folded" : "", out.channels, out.height, out.width, l.kernel[0],
                  l.kernel[1], l.stride[0], l.stride[1], l.padding[0], l.padding[1], l.dilation[0], l.dilation[1],
                  l.groups, residual ? ", residual" : "", l.table.empty() ? "" : ", table");
    return text;
}

// Adds a random layer to a program, on one of `tensors` or on a new one; false if the shape made no sense.
inline bool add_random(program& p, std::vector<tensor>& tensors, random_source& random) {
    layer l;
    const double what = random.real(0, 1);
    l.what = what < 0.7 ? kind::dense : what < 0.87 ? kind::depthwise : kind::maximum;
    const bool extreme = random.chance(0.05), matrix = random.chance(0.15);
    tensor in;
    if (!tensors.empty() && random.chance(0.6)) {
        in = random.chance(0.7) ? tensors.back()
                                : tensors[static_cast<std::size_t>(random.integer(0, tensors.size() - 1))];
    } else {
        const bool small = l.what == kind::dense && random.chance(0.2);
        const int channels = small ? random.integer(1, 8) : random.integer(1, random.chance(0.3) ? 100 : 40);
        const int pixel_channels = !small          ? 16
                                   : channels <= 1 ? random.pick({1, 2, 4, 8})
                                   : channels <= 2 ? random.pick({2, 4})
                                   : channels <= 4 ? 4
                                                   : 8;
        const int height = matrix ? 1 : random.integer(1, 14),
                  width = matrix ? random.integer(1, 40) : random.integer(1, 15);
        in = random_tensor(p.maps, random.chance(0.2) ? random.integer(2, 3) : 1, channels, height, width, extreme,
                           random, pixel_channels);
        tensors.push_back(in);
    }
    const bool plain = matrix || random.chance(0.3);
    for (int d = 0; d < 2 && !plain; d++) {
        l.kernel[d] = random.pick({1, 2, 3, 3, 3, 5, 7});
        l.stride[d] = random.pick({1, 1, 1, 2, 2, 3});
        l.dilation[d] = random.chance(0.15) ? random.integer(2, 3) : 1;
        l.padding[d] = random.integer(0, std::max(0, (l.kernel[d] - 1) * l.dilation[d] - random.integer(0, 1)));
    }
    if (!plain && random.chance(0.7)) {  // the usual: square, the same in both directions
        l.kernel[1] = l.kernel[0];
        l.stride[1] = l.stride[0];
        l.dilation[1] = l.dilation[0];
        l.padding[0] = l.padding[1] = (l.kernel[0] - 1) * l.dilation[0] / 2;
    }
    if (plain && !matrix && random.chance(0.3)) l.stride[0] = l.stride[1] = 2;
    if (l.what == kind::maximum && engine::ELEMENT != engine::ELEMENT_INT8)  // some pixel under each window
        for (int d = 0; d < 2; d++) {
            l.dilation[d] = 1;
            l.padding[d] = std::min(l.padding[d], l.kernel[d] / 2);
        }
    const bool folds = in.pixel_channels < 16;
    if (folds) l.dilation[1] = 1;
    if (folds && 16 / in.pixel_channels % l.stride[1]) l.stride[1] = 1;
    const int height = outputs_along(in.height, l.kernel[0], l.stride[0], l.padding[0], l.dilation[0]);
    const int width = outputs_along(in.width, l.kernel[1], l.stride[1], l.padding[1], l.dilation[1]);
    if (folds && l.what != kind::dense) return false;
    if ((l.kernel[0] - 1) * l.dilation[0] + 1 > in.height + 2 * l.padding[0] ||
        (l.kernel[1] - 1) * l.dilation[1] + 1 > in.width + 2 * l.padding[1])
        return false;
    int channels = l.what == kind::dense ? random.integer(1, random.chance(0.3) ? 100 : 40) : in.channels;
    if (l.what == kind::dense && !folds && random.chance(0.2)) {
        for (const int groups : {2, 3, 4, 5, 8})
            if (in.channels % groups == 0 && random.chance(0.5)) l.groups = groups;
        channels = l.groups * random.integer(1, 20);
    }
    const tensor* residual = nullptr;
    if (l.what != kind::maximum && random.chance(0.4)) {
        for (const tensor& t : tensors)
            if (t.images == in.images && t.channels == channels && t.height == height && t.width == width &&
                t.pixel_channels == 16)
                residual = &t;
        if (!residual) {
            tensors.push_back(random_tensor(p.maps, in.images, channels, height, width, extreme, random));
            residual = &tensors.back();
        }
    }
    const tensor other = residual ? *residual : tensor();
    const int inputs = in.channels / l.groups;
    const int taps = l.kernel[0] * l.kernel[1];
    const int terms = l.what == kind::maximum ? 0 : l.what == kind::dense ? inputs * taps : taps;
    random_epilogue(p, l, channels, terms, residual ? &other : nullptr, random);
    l.wide = engine::WIDE && l.what == kind::dense && !residual && height * width % engine::BEAT == 0 &&
             random.chance(0.2);
#if ENGINE_FUNCTIONS
    if (l.wide) l.function.reset();
#endif
    tensor out = make_tensor(p.maps, in.images, channels, height, width, 16, l.wide);
    out.zero = l.zero;
    const weights w = l.what == kind::dense ? random_weights(l, channels, inputs, extreme, random)
                                            : random_weights(l, channels, 1, extreme, random);
    if (!p.add(l, in, w, residual ? &other : nullptr, out, described(l, in, out, residual != nullptr))) return false;
    if (!out.wide) tensors.push_back(out);
    return true;
}

#if ENGINE_FUNCTIONS
// Functions of all finite numbers, one behind the other, of infinities, NaN and -0: by products with 1, so that each is exact.
inline void add_every_number(program& p, random_source& random) {
    const auto command = [&](const tensor& in, const std::vector<std::pair<float, float>>& channels, int first) {
        layer l;
        l.what = kind::depthwise;
        for (int c = 0; c < in.channels; c++) {
            l.scale.push_back(channels[static_cast<std::size_t>(c) % channels.size()].first);
            l.bias.push_back(channels[static_cast<std::size_t>(c) % channels.size()].second);
        }
        l.function = std::make_shared<const function>(random_function(first, random));
        weights w = random_weights(l, in.channels, 1, false, random);
        for (element_t& x : w.values) x = engine::elements::one();
        tensor out = make_tensor(p.maps, 1, in.channels, in.height, in.width);
        p.add(l, in, w, nullptr, out, described(l, in, out, false));
    };
    tensor all = make_tensor(p.maps, 1, 16, 64, 64);
    const tensor none = make_tensor(p.maps, 1, 16, 3, 5);  // zeros
    for (std::size_t i = 0; i < all.values.size(); i++) {
        const element_t x = static_cast<element_t>(i);
        all.values[i] = std::isfinite(number_of(x)) ? x : 0;
    }
    put_tensor(p.maps, all);
    put_tensor(p.maps, none);
    constexpr float MOST = std::numeric_limits<float>::infinity();
    for (const int first : {0, 119, 238}) {
        command(all, {{1.0f, 0.0f}}, first);
        command(none, {{1.0f, MOST}, {1.0f, -MOST}, {1.0f, std::nanf("")}, {-1.0f, -0.0f}, {1.0f, 0x1p-149f}}, first);
    }
    p.exact = true;
}
#endif

// A map that a command of the program makes.
inline tensor made_by_layer(program& p, int channels, int width, random_source& random) {
    const tensor in = random_tensor(p.maps, 1, random.integer(1, 40), 1, width, false, random);
    layer l;
    random_epilogue(p, l, channels, in.channels, nullptr, random);
    tensor out = make_tensor(p.maps, 1, channels, 1, width);
    out.zero = l.zero;
    p.add(l, in, random_weights(l, channels, in.channels, false, random), nullptr, out, described(l, in, out, false));
    return out;
}

// Attention's two products, of as many heads: the rows of `a` by those of `b`, and the result by the rows of another map.
inline bool add_attention(program& p, random_source& random) {
    const int heads = random.integer(1, 3), rows = random.integer(1, 20), keys = random.integer(1, 40);
    const int depth = 16 * random.integer(1, 2), outputs = 16 * random.integer(1, 2);
    const bool extreme = random.chance(0.1);
    const tensor query = random_tensor(p.maps, 1, heads * depth, 1, rows, extreme, random);
    const tensor key = random.chance(0.5) ? made_by_layer(p, heads * depth, keys, random)
                                          : random_tensor(p.maps, 1, heads * depth, 1, keys, extreme, random);
    const tensor value = random_tensor(p.maps, 1, heads * outputs, 1, keys, extreme, random);
    layer scores, context;
    const bool wide = engine::WIDE && random.chance(0.5), adds = !wide && random.chance(0.5);
    tensor bias;
    if (adds) bias = random_tensor(p.maps, random.chance(0.5) ? heads : 1, keys, 1, rows, extreme, random);
    random_epilogue(p, scores, 1, depth, adds ? &bias : nullptr, random);
    if (adds) {  // behind the last key it adds nothing
        const element_t nothing = element_from(engine::ELEMENT == engine::ELEMENT_INT8 ? scores.residual_zero : 0);
        put_tensor(p.maps, bias, &nothing);
    }
    random_epilogue(p, context, 1, keys, nullptr, random);
    // Behind the last key the scores have their zero point: params of channels that do not exist are 0.
    scores.table.clear();
#if ENGINE_FUNCTIONS
    scores.function.reset();
#endif
    scores.low = -128;
    scores.high = 127;
    scores.wide = wide;
    tensor s = make_tensor(p.maps, heads, keys, 1, rows, 16, scores.wide);
    s.zero = scores.zero;
    tensor out = make_tensor(p.maps, 1, heads * outputs, 1, rows);
    out.zero = context.zero;
    if (!p.add_product(scores, query, key, false, heads, depth, adds ? &bias : nullptr, s, "rows by rows"))
        return false;
    if (s.wide) {  // of which a softmax would make elements
        s = random_tensor(p.maps, heads, keys, 1, rows, false, random);
        const element_t none = element_from(0);
        put_tensor(p.maps, s, &none);
    }
    return p.add_product(context, s, value, true, heads, keys, nullptr, out, "rows by columns");
}

}  // namespace bench
