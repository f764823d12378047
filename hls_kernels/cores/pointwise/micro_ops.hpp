// The micro-operations of pointwise: one vector each, and a loop over a block for each.
#pragma once
#include "command.hpp"
#include "lib/math.hpp"
#include "lib/narrow.hpp"
#include "lib/vector.hpp"
#include "tiles.hpp"

namespace fpga {

FPGA_INLINE vec16 one_where(const ivec16& mask) { return select(mask, vec16(1.0f), vec16(0.0f)); }
FPGA_INLINE ivec16 truth(const vec16& x) { return vne(x, vec16(0.0f)); }

// Shift counts and divisors that no program should hold do no harm.
template <int OP>
FPGA_INLINE ivec16 integer_micro(const ivec16& a, const ivec16& b) {
    switch (OP) {
        case MICRO_INT_ADD: return a + b;
        case MICRO_INT_SUB: return a - b;
        case MICRO_INT_MUL: return a * b;
        case MICRO_INT_MIN: return select(vlt(a, b), a, b);
        case MICRO_INT_MAX: return select(vgt(a, b), a, b);
        case MICRO_BITS_AND: return a & b;
        case MICRO_BITS_OR: return a | b;
        case MICRO_BITS_XOR: return a ^ b;
        case MICRO_SHIFT_LEFT: return a << (b & ivec16(31));
        case MICRO_SHIFT_RIGHT: return a >> (b & ivec16(31));
        default: {  // MICRO_INT_FLOOR_DIV
            const ivec16 divisor = select(vlt(b, ivec16(1)), ivec16(1), b), quotient = a / divisor;
            return quotient + vlt(a, quotient * divisor);  // a mask is -1
        }
    }
}

template <int OP>
FPGA_INLINE vec16 micro(const vec16& a, const vec16& b, const vec16& c) {
    switch (OP) {
        case MICRO_ADD: return a + b;
        case MICRO_SUB: return a - b;
        case MICRO_MUL: return a * b;
        case MICRO_DIV: return a / b;
        case MICRO_FMA: return a * b + c;
        case MICRO_MIN: return vmin(a, b);
        case MICRO_MAX: return vmax(a, b);
        case MICRO_NEG: return vneg(a);
        case MICRO_ABS: return vabs(a);
        case MICRO_SQRT: return vsqrt(a);
        case MICRO_RSQRT: return vec16(1.0f) / vsqrt(a);
        case MICRO_RECIPROCAL: return vec16(1.0f) / a;
        case MICRO_EXP: return vexp(a);
        case MICRO_LOG: return vlog(a);
        case MICRO_TANH: return vtanh(a);
        case MICRO_ERF: return verf(a);
        case MICRO_SIGMOID: return vsigmoid(a);
        case MICRO_POW: return vpow(a, b);
        case MICRO_FLOOR: return vfloor(a);
        case MICRO_CEIL: return vceil(a);
        case MICRO_ROUND: return vround(a);
        case MICRO_TRUNC: return vtrunc(a);
        case MICRO_EQ: return one_where(veq(a, b));
        case MICRO_NE: return one_where(vne(a, b));
        case MICRO_LT: return one_where(vlt(a, b));
        case MICRO_LE: return one_where(vle(a, b));
        case MICRO_GT: return one_where(vgt(a, b));
        case MICRO_GE: return one_where(vge(a, b));
        case MICRO_AND: return one_where(truth(a) & truth(b));
        case MICRO_OR: return one_where(truth(a) | truth(b));
        case MICRO_NOT: return one_where(veq(a, vec16(0.0f)));
        case MICRO_WHERE: return select(truth(a), b, c);
        case MICRO_SIN: return vsin(a);
        case MICRO_COS: return vcos(a);
        case MICRO_INT_TO_FLOAT: return to_float(bits_of(a));
        case MICRO_FLOAT_TO_INT: return from_bits(to_int(a));
        case MICRO_SIGN: return one_where(vgt(a, vec16(0.0f))) - one_where(vlt(a, vec16(0.0f)));
        case MICRO_EXPM1: return vexpm1(a);
        case MICRO_LOG1P: return vlog1p(a);
        case MICRO_RELU: return vrelu(a);
        case MICRO_ROUND_BF16: return round_to_bf16(a);
        case MICRO_ROUND_F16: return round_to_f16(a);
        case MICRO_INT_EQ: return one_where(veq(bits_of(a), bits_of(b)));
        case MICRO_INT_LT: return one_where(vlt(bits_of(a), bits_of(b)));
        case MICRO_INT_ADD:
        case MICRO_INT_SUB:
        case MICRO_INT_MUL:
        case MICRO_INT_MIN:
        case MICRO_INT_MAX:
        case MICRO_BITS_AND:
        case MICRO_BITS_OR:
        case MICRO_BITS_XOR:
        case MICRO_SHIFT_LEFT:
        case MICRO_SHIFT_RIGHT:
        case MICRO_INT_FLOOR_DIV: return from_bits(integer_micro<OP>(bits_of(a), bits_of(b)));
        default: return a;  // MICRO_COPY
    }
}

// to may be one of the operands; an operand that OP does not have is not read.
template <int OP>
inline void micro_block(float* to, const float* a, const float* b, const float* c, int vectors) {
elements:
    for (int i = 0; i < vectors * VEC; i += VEC) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 16 max = 16
        store(to, i, micro<OP>(load(a, i), load(b, i), load(c, i)));
    }
}

FPGA_INLINE bool micro_op_is_known(int32_t op) { return op >= MICRO_COPY && op <= MICRO_INT_FLOOR_DIV; }

inline void run_micro(int32_t op, float* to, const float* a, const float* b, const float* c, int n) {
    switch (op) {
        case MICRO_COPY: return micro_block<MICRO_COPY>(to, a, b, c, n);
        case MICRO_ADD: return micro_block<MICRO_ADD>(to, a, b, c, n);
        case MICRO_SUB: return micro_block<MICRO_SUB>(to, a, b, c, n);
        case MICRO_MUL: return micro_block<MICRO_MUL>(to, a, b, c, n);
        case MICRO_DIV: return micro_block<MICRO_DIV>(to, a, b, c, n);
        case MICRO_FMA: return micro_block<MICRO_FMA>(to, a, b, c, n);
        case MICRO_MIN: return micro_block<MICRO_MIN>(to, a, b, c, n);
        case MICRO_MAX: return micro_block<MICRO_MAX>(to, a, b, c, n);
        case MICRO_NEG: return micro_block<MICRO_NEG>(to, a, b, c, n);
        case MICRO_ABS: return micro_block<MICRO_ABS>(to, a, b, c, n);
        case MICRO_SQRT: return micro_block<MICRO_SQRT>(to, a, b, c, n);
        case MICRO_RSQRT: return micro_block<MICRO_RSQRT>(to, a, b, c, n);
        case MICRO_RECIPROCAL: return micro_block<MICRO_RECIPROCAL>(to, a, b, c, n);
        case MICRO_EXP: return micro_block<MICRO_EXP>(to, a, b, c, n);
        case MICRO_LOG: return micro_block<MICRO_LOG>(to, a, b, c, n);
        case MICRO_TANH: return micro_block<MICRO_TANH>(to, a, b, c, n);
        case MICRO_ERF: return micro_block<MICRO_ERF>(to, a, b, c, n);
        case MICRO_SIGMOID: return micro_block<MICRO_SIGMOID>(to, a, b, c, n);
        case MICRO_POW: return micro_block<MICRO_POW>(to, a, b, c, n);
        case MICRO_FLOOR: return micro_block<MICRO_FLOOR>(to, a, b, c, n);
        case MICRO_CEIL: return micro_block<MICRO_CEIL>(to, a, b, c, n);
        case MICRO_ROUND: return micro_block<MICRO_ROUND>(to, a, b, c, n);
        case MICRO_TRUNC: return micro_block<MICRO_TRUNC>(to, a, b, c, n);
        case MICRO_EQ: return micro_block<MICRO_EQ>(to, a, b, c, n);
        case MICRO_NE: return micro_block<MICRO_NE>(to, a, b, c, n);
        case MICRO_LT: return micro_block<MICRO_LT>(to, a, b, c, n);
        case MICRO_LE: return micro_block<MICRO_LE>(to, a, b, c, n);
        case MICRO_GT: return micro_block<MICRO_GT>(to, a, b, c, n);
        case MICRO_GE: return micro_block<MICRO_GE>(to, a, b, c, n);
        case MICRO_AND: return micro_block<MICRO_AND>(to, a, b, c, n);
        case MICRO_OR: return micro_block<MICRO_OR>(to, a, b, c, n);
        case MICRO_NOT: return micro_block<MICRO_NOT>(to, a, b, c, n);
        case MICRO_WHERE: return micro_block<MICRO_WHERE>(to, a, b, c, n);
        case MICRO_SIN: return micro_block<MICRO_SIN>(to, a, b, c, n);
        case MICRO_COS: return micro_block<MICRO_COS>(to, a, b, c, n);
        case MICRO_INT_TO_FLOAT: return micro_block<MICRO_INT_TO_FLOAT>(to, a, b, c, n);
        case MICRO_FLOAT_TO_INT: return micro_block<MICRO_FLOAT_TO_INT>(to, a, b, c, n);
        case MICRO_SIGN: return micro_block<MICRO_SIGN>(to, a, b, c, n);
        case MICRO_EXPM1: return micro_block<MICRO_EXPM1>(to, a, b, c, n);
        case MICRO_LOG1P: return micro_block<MICRO_LOG1P>(to, a, b, c, n);
        case MICRO_RELU: return micro_block<MICRO_RELU>(to, a, b, c, n);
        case MICRO_ROUND_BF16: return micro_block<MICRO_ROUND_BF16>(to, a, b, c, n);
        case MICRO_ROUND_F16: return micro_block<MICRO_ROUND_F16>(to, a, b, c, n);
        case MICRO_INT_ADD: return micro_block<MICRO_INT_ADD>(to, a, b, c, n);
        case MICRO_INT_SUB: return micro_block<MICRO_INT_SUB>(to, a, b, c, n);
        case MICRO_INT_MUL: return micro_block<MICRO_INT_MUL>(to, a, b, c, n);
        case MICRO_INT_MIN: return micro_block<MICRO_INT_MIN>(to, a, b, c, n);
        case MICRO_INT_MAX: return micro_block<MICRO_INT_MAX>(to, a, b, c, n);
        case MICRO_INT_EQ: return micro_block<MICRO_INT_EQ>(to, a, b, c, n);
        case MICRO_INT_LT: return micro_block<MICRO_INT_LT>(to, a, b, c, n);
        case MICRO_BITS_AND: return micro_block<MICRO_BITS_AND>(to, a, b, c, n);
        case MICRO_BITS_OR: return micro_block<MICRO_BITS_OR>(to, a, b, c, n);
        case MICRO_BITS_XOR: return micro_block<MICRO_BITS_XOR>(to, a, b, c, n);
        case MICRO_SHIFT_LEFT: return micro_block<MICRO_SHIFT_LEFT>(to, a, b, c, n);
        case MICRO_SHIFT_RIGHT: return micro_block<MICRO_SHIFT_RIGHT>(to, a, b, c, n);
        case MICRO_INT_FLOOR_DIV: return micro_block<MICRO_INT_FLOOR_DIV>(to, a, b, c, n);
        default: return;
    }
}

}  // namespace fpga
