// Stands in for the header of Vitis HLS: a filter whose sums are exact before they are rounded to the type of the result.
#pragma once
#include <cmath>
#include <cstddef>
#include <vector>

#include "ap_fixed.h"
#include <hls_stream.h>

namespace hls {
namespace ip_fir {

enum filter_type { single_rate = 0, interpolation, decimation, hilbert_filter, interpolated };
enum rate_change { integer = 0, fixed_fractional };
enum chan_seq { basic = 0, advanced };
enum rate_specification { frequency_specification = 0, input_period, output_period };
enum coeff_structure { inferred = 0, non_symmetric, symmetric, negative_symmetric, half_band, hilbert };
enum quantization { integer_coefficients = 0, quantize_only, maximize_dynamic_range };
enum output_rounding {
    full_precision = 0,
    truncate_lsbs,
    non_symmetric_rounding_down,
    non_symmetric_rounding_up,
    symmetric_rounding_to_zero,
    symmetric_rounding_to_infinity,
    convergent_rounding_to_even,
    convergent_rounding_to_odd
};
enum filter_arch { systolic_multiply_accumulate = 0, transpose_multiply_accumulate };
enum opt_goal { area = 0, speed };
enum opt { mem_auto = 0, block, distributed };
enum config_sync { vector_ = 0, packet };

struct params_t {
    static const unsigned input_width = 16;
    static const unsigned input_fractional_bits = 0;
    static const unsigned output_width = 24;
    static const unsigned output_fractional_bits = 0;
    static const unsigned coeff_width = 16;
    static const unsigned coeff_fractional_bits = 0;
    static const unsigned num_coeffs = 21;
    static const unsigned coeff_sets = 1;
    static const unsigned input_length = num_coeffs;
    static const unsigned output_length = num_coeffs;
    static const unsigned num_channels = 1;
    static const unsigned total_num_coeff = num_coeffs * coeff_sets;
    static const bool reloadable = false;
    static const unsigned filter_type = single_rate;
    static const unsigned rate_change = integer;
    static const unsigned interp_rate = 1;
    static const unsigned decim_rate = 1;
    static const unsigned zero_pack_factor = 1;
    static const unsigned chan_seq = basic;
    static const unsigned rate_specification = input_period;
    static constexpr double sample_period = 1;
    static constexpr double sample_frequency = 0.001;
    static const unsigned quantization = integer_coefficients;
    static const unsigned output_rounding_mode = full_precision;
    static const unsigned filter_arch = systolic_multiply_accumulate;
    static const unsigned optimization_goal = area;
    static const unsigned inter_column_pipe_length = 4;
    static const unsigned column_config = 1;
    static const unsigned config_sync_mode = vector_;
    static const unsigned config_width = 8;
};

}  // namespace ip_fir

template <class P_>
class FIR {
    static_assert(!P_::reloadable && P_::filter_type != ip_fir::hilbert_filter,
                  "hls::FIR on the emulator: Hilbert filters and coefficients that are loaded are not supported");

public:
    FIR() : history_(P_::num_channels) {}
    template <class IN_, class OUT_>
    void run(IN_&& in, OUT_&& out) {
        filter(in, out, 0);
    }
    // config: which of the sets of coefficients.
    template <class IN_, class OUT_, class C_>
    void run(IN_&& in, OUT_&& out, C_* config) {
        filter(in, out, static_cast<unsigned>(*config));
    }
    template <class IN_, class OUT_, class C_>
    void run(IN_&& in, OUT_&& out, stream<C_>& config) {
        filter(in, out, static_cast<unsigned>(config.read()));
    }

private:
    struct channel {
        std::vector<double> samples;  // the newest one last
        unsigned phase = 0;
    };
    template <class T_>
    static double next(const T_* in, std::size_t& at) {
        return static_cast<double>(in[at++]);
    }
    template <class T_>
    static double next(stream<T_>& in, std::size_t&) {
        return static_cast<double>(in.read());
    }
    template <class T_>
    static void put(T_* out, std::size_t& at, double x) {
        out[at++] = T_(x);
    }
    template <class T_>
    static void put(stream<T_>& out, std::size_t&, double x) {
        out.write(T_(x));
    }
    template <class IN_, class OUT_>
    void filter(IN_& in, OUT_& out, unsigned set) {
        constexpr unsigned up = P_::filter_type == ip_fir::interpolation || P_::rate_change ? P_::interp_rate : 1;
        constexpr unsigned down = P_::filter_type == ip_fir::decimation || P_::rate_change ? P_::decim_rate : 1;
        constexpr unsigned spread = P_::filter_type == ip_fir::interpolated ? P_::zero_pack_factor : 1;
        std::size_t from = 0, to = 0;
        for (unsigned i = 0; i < P_::input_length; i++)
            for (channel& c : history_) {
                c.samples.push_back(next(in, from));
                for (unsigned p = 0; p < up; p++) {
                    if (++c.phase < down) continue;
                    c.phase = 0;
                    put(out, to, sum(c, set, p, up, spread));
                }
                const std::size_t kept = static_cast<std::size_t>(P_::num_coeffs) * spread;
                if (c.samples.size() > kept) c.samples.erase(c.samples.begin());
            }
    }
    static double sum(const channel& c, unsigned set, unsigned phase, unsigned up, unsigned spread) {
        double total = 0;
        for (unsigned k = phase, age = 0; k < P_::num_coeffs; k += up, age += spread)
            if (age < c.samples.size())
                total += coefficient(set * P_::num_coeffs + k) * c.samples[c.samples.size() - 1 - age];
        return total;
    }
    static double coefficient(unsigned i) {
        const int bits = static_cast<int>(P_::coeff_fractional_bits);
        return std::ldexp(std::nearbyint(std::ldexp(P_::coeff_vec[i], bits)), -bits);
    }
    std::vector<channel> history_;
};

}  // namespace hls
