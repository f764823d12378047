#include "pack_panels.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "bindings.hpp"
#include "interpreter.hpp"

namespace {

constexpr size_t MOST_WIDTH = 64;  // lanes of a panel that are computed side by side
constexpr size_t MOST_TAPS = 9, MOST_POINTS = 8;
constexpr size_t WORTH_A_THREAD = 1 << 17;  // packed floats: some hundred microseconds

// y = G x, of three rows each `step` rows apart.
void transform_rows(const std::vector<double>& g, const double (*x)[MOST_WIDTH], size_t step, size_t width,
                    double (*y)[MOST_WIDTH], size_t to) {
    const size_t points = g.size() / 3;
    for (size_t p = 0; p < points; ++p) {
        const double a = g[3 * p], b = g[3 * p + 1], c = g[3 * p + 2];
        for (size_t l = 0; l < width; ++l) y[p * to][l] = a * x[0][l] + b * x[step][l] + c * x[2 * step][l];
    }
}

// Notes rows of packed weights of which some are infinite or NaN, lane by lane.
struct watch {
    float rests[MOST_WIDTH] = {};  // x - x: 0 of a finite number, else NaN

    void see(const float* row, size_t width) {
        for (size_t l = 0; l < width; ++l) rests[l] += row[l] - row[l];  // NOLINT(misc-redundant-expression)
    }
    bool finite() const {
        return std::all_of(rests, rests + MOST_WIDTH, [](float rest) { return rest == 0.0f; });
    }
};

bool pack_panel(const panel_job& job, size_t panel) {
    watch seen;
    const size_t first = panel * job.width, used = std::min(job.width, job.outs - first);
    const size_t elements = job.elements(), points = job.points();
    float* target = static_cast<float*>(job.panels) + panel * elements * job.ins * job.width;
    double taps[MOST_TAPS][MOST_WIDTH] = {}, half[3 * MOST_POINTS][MOST_WIDTH],
           whole[MOST_POINTS * MOST_POINTS][MOST_WIDTH];
    for (size_t in = 0; in < job.ins; ++in) {
        for (size_t l = 0; l < used; ++l) {
            const float* from = job.channel<float>(first + l, in);
            const double factor = job.factors ? job.factors[first + l] : 1.0;
            for (size_t t = 0; t < job.taps.size(); ++t) taps[t][l] = factor * from[job.taps[t]];
        }
        for (size_t column = 0; column < 3 && points; ++column)  // G g: half[point][column]
            transform_rows(job.transform, taps + column, 3, job.width, half + column, 3);
        for (size_t p = 0; p < points; ++p)  // (G g) G^T
            transform_rows(job.transform, half + 3 * p, 1, job.width, whole + p * points, 1);
        const double (*value)[MOST_WIDTH] = points ? whole : taps;
        for (size_t e = 0; e < elements; ++e) {
            float* to = target + (e * job.ins + in) * job.width;
            for (size_t l = 0; l < job.width; ++l) to[l] = static_cast<float>(value[e][l]);
            seen.see(to, job.width);
        }
    }
    return seen.finite();
}

// The same of rows of 16 bits.
struct narrow_watch {
    uint16_t infinity;
    bool met = false;

    void see(const uint16_t* row, size_t width) {
        for (size_t l = 0; l < width; ++l) met |= (row[l] & infinity) == infinity;
    }
    bool finite() const { return !met; }
};

// Many taps, no arithmetic but the factors: lane by lane.
template <class T, class WATCH>
bool copy_panel(const panel_job& job, size_t panel, WATCH seen) {
    const size_t first = panel * job.width, used = std::min(job.width, job.outs - first), taps = job.taps.size();
    T* target = static_cast<T*>(job.panels) + panel * taps * job.ins * job.width;
    constexpr size_t BLOCK = 16;  // input channels whose taps of all lanes stay in L1
    for (size_t begin = 0; begin < job.ins; begin += BLOCK)
        for (size_t t = 0; t < taps; ++t)
            for (size_t in = begin; in < std::min(job.ins, begin + BLOCK); ++in) {
                T* to = target + (t * job.ins + in) * job.width;
                const T* from = job.channel<T>(first, in) + job.taps[t];
                if (job.factors)
                    for (size_t l = 0; l < used; ++l)
                        to[l] = static_cast<T>(job.factors[first + l] * from[l * job.out_stride]);
                else
                    for (size_t l = 0; l < used; ++l) to[l] = from[l * job.out_stride];
                for (size_t l = used; l < job.width; ++l) to[l] = 0;
                seen.see(to, job.width);
            }
    return seen.finite();
}

bool make_panel(const panel_job& job, size_t panel) {
    if (!job.transform.empty()) return pack_panel(job, panel);
    if (job.infinity) return copy_panel<uint16_t>(job, panel, narrow_watch{job.infinity});
    return copy_panel<float>(job, panel, watch{});
}

}  // namespace

bool pack_panels(const panel_job& job, unsigned threads) {
    std::atomic<size_t> next{0};
    std::atomic<bool> finite{true};
    const auto work = [&] {
        for (size_t panel; (panel = next.fetch_add(1)) < job.count();)
            if (!make_panel(job, panel)) finite = false;
    };
    const size_t floats = job.count() * job.elements() * job.ins * job.width;
    const size_t helpers = std::min<size_t>({threads ? threads - 1 : 0, job.count() - 1, floats / WORTH_A_THREAD});
    std::vector<std::thread> team;
    team.reserve(helpers);
    for (size_t i = 0; i < helpers; ++i) team.emplace_back(work);
    work();
    for (std::thread& helper : team) helper.join();
    return finite;
}

void bind_pack_panels(nb::module_& module) {
    module.def(
        "pack_panels",
        [](uintptr_t weight, uintptr_t factors, uintptr_t panels, size_t outs, size_t ins, size_t width,
           ptrdiff_t out_stride, ptrdiff_t in_stride, const std::vector<ptrdiff_t>& taps, uint16_t infinity,
           const std::vector<double>& transform, unsigned threads) {
            const bool sound = outs && width && width <= MOST_WIDTH && transform.size() % 3 == 0 &&
                               transform.size() <= 3 * MOST_POINTS && (transform.empty() || taps.size() == MOST_TAPS);
            if (!sound)
                throw nb::value_error("panels must have 1 to 64 channels, and only 3 x 3 filters can be transformed");
            if (infinity && (factors || !transform.empty()))
                throw nb::value_error("weights of 16 bits support neither factors nor a transform");
            without_gil release;
            return pack_panels({reinterpret_cast<const void*>(weight), reinterpret_cast<const double*>(factors),
                                reinterpret_cast<void*>(panels), outs, ins, width, out_stride, in_stride, taps,
                                infinity, transform},
                               threads);
        },
        nb::kw_only(), nb::arg("weight"), nb::arg("factors"), nb::arg("panels"), nb::arg("outs"), nb::arg("ins"),
        nb::arg("width"), nb::arg("out_stride"), nb::arg("in_stride"), nb::arg("taps"), nb::arg("infinity"),
        nb::arg("transform"), nb::arg("threads"));
}
