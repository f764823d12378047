// Stands in for the header of Vitis HLS: the transform is computed in double and rounded once, where the core rounds after each
// stage. So results of fixed point differ from a card's in their last bits.
#pragma once
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ap_fixed.h"
#include <hls_stream.h>
#include <hls_vector.h>

namespace hls {
namespace ip_fft {

enum scaling { unscaled = 0, scaled, block_floating_point };
enum rounding { truncation = 0, convergent_rounding };
enum mem { block_ram = 0, distributed_ram };
enum opt { use_luts = 0, use_mults_resources, use_mults_performance, use_xtremedsp_slices };
enum ordering { bit_reversed_order = 0, natural_order };
enum arch {
    automatically_select = 0,
    pipelined_streaming_io,
    radix_4_burst_io,
    radix_2_burst_io,
    radix_2_lite_burst_io
};
enum type { fixed_type = 0, floating_type };

struct params_t {
    static const unsigned input_width = 16;
    static const unsigned output_width = 16;
    static const unsigned status_width = 8;
    static const unsigned config_width = 16;
    static const unsigned max_nfft = 10;
    static const bool has_nfft = false;
    static const unsigned channels = 1;
    static const unsigned arch_opt = pipelined_streaming_io;
    static const unsigned phase_factor_width = 16;
    static const unsigned ordering_opt = bit_reversed_order;
    static const unsigned output_ordering = bit_reversed_order;
    static const bool ovflo = true;
    static const unsigned scaling_opt = scaled;
    static const unsigned rounding_opt = truncation;
    static const unsigned mem_data = block_ram;
    static const unsigned mem_phase_factors = block_ram;
    static const unsigned mem_reorder = block_ram;
    static const unsigned stages_block_ram = 0;
    static const bool mem_hybrid = false;
    static const unsigned complex_mult_type = use_mults_resources;
    static const unsigned butterfly_type = use_luts;
    static const bool xk_index = false;
    static const bool cyclic_prefix_insertion = false;
    static const unsigned super_sample_rate = 1;
    static const bool use_native_float = false;
    static const bool systolicfft_inv = false;
};
// More than one sample a cycle: no scaling, natural order.
struct ssr_params_t : params_t {
    static const unsigned ordering_opt = natural_order;
    static const unsigned output_ordering = natural_order;
    static const unsigned scaling_opt = unscaled;
};

template <class P_>
class config_t {
public:
    void setDir(bool forward, unsigned = 0) { forward_ = forward; }
    bool getDir(unsigned = 0) const { return forward_; }
    void setSch(unsigned schedule, unsigned = 0) { schedule_ = schedule; }
    unsigned getSch(unsigned = 0) const { return schedule_; }
    void setNfft(unsigned nfft) { nfft_ = nfft; }
    unsigned getNfft() const { return nfft_; }
    void setCpLen(unsigned length) { prefix_ = length; }
    unsigned getCpLen() const { return prefix_; }

private:
    bool forward_ = true;
    unsigned schedule_ = 0, nfft_ = P_::max_nfft, prefix_ = 0;
};

template <class P_>
class status_t {
public:
    unsigned getBlkExp(unsigned = 0) const { return exponent_; }
    bool getOvflo(unsigned = 0) const { return overflow_; }
    void set(unsigned exponent, bool overflow) { exponent_ = exponent, overflow_ = overflow; }

private:
    unsigned exponent_ = 0;
    bool overflow_ = false;
};

namespace detail {

typedef std::complex<double> number;

inline std::size_t reversed(std::size_t i, unsigned bits) {
    std::size_t r = 0;
    for (unsigned b = 0; b < bits; b++) r |= ((i >> b) & 1) << (bits - 1 - b);
    return r;
}
inline void transform(std::vector<number>& x, unsigned bits, bool forward) {
    for (std::size_t i = 0; i < x.size(); i++)
        if (i < reversed(i, bits)) std::swap(x[i], x[reversed(i, bits)]);
    const double turn = (forward ? -2 : 2) * 3.14159265358979323846;
    for (std::size_t half = 1; half < x.size(); half *= 2)
        for (std::size_t k = 0; k < half; k++) {
            const number factor = std::polar(1.0, turn * static_cast<double>(k) / static_cast<double>(2 * half));
            for (std::size_t i = k; i < x.size(); i += 2 * half) {
                const number odd = factor * x[i + half];
                x[i + half] = x[i] - odd;
                x[i] += odd;
            }
        }
}

template <class T_>
struct format {  // of floats: anything fits
    static double limit() { return INFINITY; }
    static T_ of(double x, bool) { return static_cast<T_>(x); }
};
template <int W_, int I_, ap_q_mode Q_, ap_o_mode O_, int N_>
struct format<ap_fixed<W_, I_, Q_, O_, N_>> {
    static double limit() { return std::ldexp(1.0, I_ - 1); }
    static ap_fixed<W_, I_, Q_, O_, N_> of(double x, bool convergent) {
        const double steps = std::ldexp(x, W_ - I_);
        return ap_fixed<W_, I_, Q_, O_, N_>(
            std::ldexp(convergent ? std::nearbyint(steps) : std::floor(steps), I_ - W_));
    }
};

template <class T_>
number read_one(const std::complex<T_>& x) {
    return {static_cast<double>(x.real()), static_cast<double>(x.imag())};
}
// Arrays and streams, of numbers or of several at once.
template <class T_>
void take(const std::complex<T_>* from, std::vector<number>& to) {
    for (std::size_t i = 0; i < to.size(); i++) to[i] = read_one(from[i]);
}
template <class T_>
void take(stream<std::complex<T_>>& from, std::vector<number>& to) {
    for (number& x : to) x = read_one(from.read());
}
template <class T_, std::size_t N_>
void take(stream<vector<std::complex<T_>, N_>>& from, std::vector<number>& to) {
    for (std::size_t i = 0; i < to.size(); i += N_) {
        const vector<std::complex<T_>, N_> beat = from.read();
        for (std::size_t j = 0; j < N_; j++) to[i + j] = read_one(beat[j]);
    }
}
template <class T_>
void give(const std::vector<std::complex<T_>>& from, std::complex<T_>* to) {
    for (std::size_t i = 0; i < from.size(); i++) to[i] = from[i];
}
template <class T_>
void give(const std::vector<std::complex<T_>>& from, stream<std::complex<T_>>& to) {
    for (const std::complex<T_>& x : from) to.write(x);
}
template <class T_, std::size_t N_>
void give(const std::vector<std::complex<T_>>& from, stream<vector<std::complex<T_>, N_>>& to) {
    for (std::size_t i = 0; i < from.size(); i += N_) {
        vector<std::complex<T_>, N_> beat;
        for (std::size_t j = 0; j < N_; j++) beat[j] = from[i + j];
        to.write(beat);
    }
}
template <class T_>
struct element_of;
template <class T_>
struct element_of<std::complex<T_>*> {
    typedef T_ type;
};
template <class T_, int D_>
struct element_of<stream<std::complex<T_>, D_>> {
    typedef T_ type;
};
template <class T_, std::size_t N_, int D_>
struct element_of<stream<vector<std::complex<T_>, N_>, D_>> {
    typedef T_ type;
};

// A schedule has two bits for each scaling: by how many bits. Returns the status.
template <class P_, class IN_, class OUT_>
status_t<P_> run(IN_& in, OUT_& out, bool forward, unsigned schedule, unsigned nfft, unsigned prefix = 0) {
    typedef typename element_of<std::decay_t<OUT_>>::type T_;
    std::vector<number> x(std::size_t{1} << nfft);
    take(in, x);
    transform(x, nfft, forward);
    unsigned shift = 0;
    if (P_::scaling_opt == scaled)
        for (; schedule; schedule >>= 2) shift += schedule & 3;
    double largest = 0;
    for (const number& v : x) largest = std::fmax(largest, std::fmax(std::fabs(v.real()), std::fabs(v.imag())));
    const double limit = format<T_>::limit();
    if (P_::scaling_opt == block_floating_point)
        while (std::ldexp(largest, -static_cast<int>(shift)) >= limit) shift++;
    constexpr bool convergent = P_::rounding_opt == convergent_rounding;
    constexpr bool natural = P_::ordering_opt == natural_order || P_::output_ordering == natural_order;
    const bool keeps_scale = std::is_floating_point<T_>::value;  // the core has no schedule for floats
    const double factor = keeps_scale ? 1.0 : std::ldexp(1.0, -static_cast<int>(shift));
    std::vector<std::complex<T_>> results;
    for (std::size_t i = x.size() - prefix; i < x.size() + x.size(); i++) {  // a cyclic prefix is the end once more
        const number v = x[natural ? i % x.size() : reversed(i % x.size(), nfft)] * factor;
        results.emplace_back(format<T_>::of(v.real(), convergent), format<T_>::of(v.imag(), convergent));
    }
    give(results, out);
    status_t<P_> status;
    status.set(shift, largest * factor >= limit);
    return status;
}

}  // namespace detail
}  // namespace ip_fft

template <class P_, class IN_, class OUT_>
void fft(IN_&& in, OUT_&& out, ip_fft::status_t<P_>* status, ip_fft::config_t<P_>* config) {
    *status = ip_fft::detail::run<P_>(in, out, config->getDir(), config->getSch(),
                                      P_::has_nfft ? config->getNfft() : P_::max_nfft, config->getCpLen());
}
template <class P_, class IN_, class OUT_>
void fft(IN_&& in, OUT_&& out, stream<ip_fft::status_t<P_>>& status, stream<ip_fft::config_t<P_>>& config) {
    ip_fft::config_t<P_> c = config.read();
    ip_fft::status_t<P_> s;
    fft<P_>(in, out, &s, &c);
    status.write(s);
}
template <class P_, class IN_, class OUT_, class DIR_, class SCALING_>
void fft(IN_&& in, OUT_&& out, DIR_ forward, SCALING_ schedule, int prefix, bool* overflow) {
    const unsigned length = prefix > 0 ? static_cast<unsigned>(prefix) : 0;
    const auto status = ip_fft::detail::run<P_>(in, out, static_cast<bool>(forward), static_cast<unsigned>(schedule),
                                                P_::max_nfft, length);
    if (overflow) *overflow = status.getOvflo();
}
template <class P_, class IN_, class OUT_>
void fft(IN_&& in, OUT_&& out) {
    ip_fft::detail::run<P_>(in, out, !P_::systolicfft_inv, 0, P_::max_nfft);
}

}  // namespace hls
