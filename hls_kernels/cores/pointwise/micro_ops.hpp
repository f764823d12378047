// The micro-operations of pointwise: one vector each, and a loop over a block for each.
#pragma once
#include "command.hpp"
#include "lib/math.hpp"
#include "lib/narrow.hpp"
#include "lib/vector.hpp"
#include "local_rows.hpp"

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

// The result's row may be one of the operands'; an operand that OP does not have is not read.
template <int OP>
inline void micro_block(micro_operands& operand, const micro_instruction& m, int vectors) {
#ifdef __SYNTHESIS__
elements:
    for (int i = 0; i < vectors; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 16 max = 16
#pragma HLS dependence variable = operand type = inter false
        operand[m.to][i] = micro<OP>(operand[m.a][i], operand[m.b][i], operand[m.c][i]);
    }
#else
    float *to = operand[m.to], *a = operand[m.a], *b = operand[m.b], *c = operand[m.c];
    for (int i = 0; i < vectors * VEC; i += VEC) store(to, i, micro<OP>(load(a, i), load(b, i), load(c, i)));
#endif
}

FPGA_INLINE bool micro_op_is_known(int32_t op) { return op >= MICRO_COPY && op <= MICRO_INT_FLOOR_DIV; }

inline void run_micro(micro_operands& operand, const micro_instruction& m, int vectors) {
    switch (m.op) {
        case MICRO_COPY: return micro_block<MICRO_COPY>(operand, m, vectors);
        case MICRO_ADD: return micro_block<MICRO_ADD>(operand, m, vectors);
        case MICRO_SUB: return micro_block<MICRO_SUB>(operand, m, vectors);
        case MICRO_MUL: return micro_block<MICRO_MUL>(operand, m, vectors);
        case MICRO_DIV: return micro_block<MICRO_DIV>(operand, m, vectors);
        case MICRO_FMA: return micro_block<MICRO_FMA>(operand, m, vectors);
        case MICRO_MIN: return micro_block<MICRO_MIN>(operand, m, vectors);
        case MICRO_MAX: return micro_block<MICRO_MAX>(operand, m, vectors);
        case MICRO_NEG: return micro_block<MICRO_NEG>(operand, m, vectors);
        case MICRO_ABS: return micro_block<MICRO_ABS>(operand, m, vectors);
        case MICRO_SQRT: return micro_block<MICRO_SQRT>(operand, m, vectors);
        case MICRO_RSQRT: return micro_block<MICRO_RSQRT>(operand, m, vectors);
        case MICRO_RECIPROCAL: return micro_block<MICRO_RECIPROCAL>(operand, m, vectors);
        case MICRO_EXP: return micro_block<MICRO_EXP>(operand, m, vectors);
        case MICRO_LOG: return micro_block<MICRO_LOG>(operand, m, vectors);
        case MICRO_TANH: return micro_block<MICRO_TANH>(operand, m, vectors);
        case MICRO_ERF: return micro_block<MICRO_ERF>(operand, m, vectors);
        case MICRO_SIGMOID: return micro_block<MICRO_SIGMOID>(operand, m, vectors);
        case MICRO_POW: return micro_block<MICRO_POW>(operand, m, vectors);
        case MICRO_FLOOR: return micro_block<MICRO_FLOOR>(operand, m, vectors);
        case MICRO_CEIL: return micro_block<MICRO_CEIL>(operand, m, vectors);
        case MICRO_ROUND: return micro_block<MICRO_ROUND>(operand, m, vectors);
        case MICRO_TRUNC: return micro_block<MICRO_TRUNC>(operand, m, vectors);
        case MICRO_EQ: return micro_block<MICRO_EQ>(operand, m, vectors);
        case MICRO_NE: return micro_block<MICRO_NE>(operand, m, vectors);
        case MICRO_LT: return micro_block<MICRO_LT>(operand, m, vectors);
        case MICRO_LE: return micro_block<MICRO_LE>(operand, m, vectors);
        case MICRO_GT: return micro_block<MICRO_GT>(operand, m, vectors);
        case MICRO_GE: return micro_block<MICRO_GE>(operand, m, vectors);
        case MICRO_AND: return micro_block<MICRO_AND>(operand, m, vectors);
        case MICRO_OR: return micro_block<MICRO_OR>(operand, m, vectors);
        case MICRO_NOT: return micro_block<MICRO_NOT>(operand, m, vectors);
        case MICRO_WHERE: return micro_block<MICRO_WHERE>(operand, m, vectors);
        case MICRO_SIN: return micro_block<MICRO_SIN>(operand, m, vectors);
        case MICRO_COS: return micro_block<MICRO_COS>(operand, m, vectors);
        case MICRO_INT_TO_FLOAT: return micro_block<MICRO_INT_TO_FLOAT>(operand, m, vectors);
        case MICRO_FLOAT_TO_INT: return micro_block<MICRO_FLOAT_TO_INT>(operand, m, vectors);
        case MICRO_SIGN: return micro_block<MICRO_SIGN>(operand, m, vectors);
        case MICRO_EXPM1: return micro_block<MICRO_EXPM1>(operand, m, vectors);
        case MICRO_LOG1P: return micro_block<MICRO_LOG1P>(operand, m, vectors);
        case MICRO_RELU: return micro_block<MICRO_RELU>(operand, m, vectors);
        case MICRO_ROUND_BF16: return micro_block<MICRO_ROUND_BF16>(operand, m, vectors);
        case MICRO_ROUND_F16: return micro_block<MICRO_ROUND_F16>(operand, m, vectors);
        case MICRO_INT_ADD: return micro_block<MICRO_INT_ADD>(operand, m, vectors);
        case MICRO_INT_SUB: return micro_block<MICRO_INT_SUB>(operand, m, vectors);
        case MICRO_INT_MUL: return micro_block<MICRO_INT_MUL>(operand, m, vectors);
        case MICRO_INT_MIN: return micro_block<MICRO_INT_MIN>(operand, m, vectors);
        case MICRO_INT_MAX: return micro_block<MICRO_INT_MAX>(operand, m, vectors);
        case MICRO_INT_EQ: return micro_block<MICRO_INT_EQ>(operand, m, vectors);
        case MICRO_INT_LT: return micro_block<MICRO_INT_LT>(operand, m, vectors);
        case MICRO_BITS_AND: return micro_block<MICRO_BITS_AND>(operand, m, vectors);
        case MICRO_BITS_OR: return micro_block<MICRO_BITS_OR>(operand, m, vectors);
        case MICRO_BITS_XOR: return micro_block<MICRO_BITS_XOR>(operand, m, vectors);
        case MICRO_SHIFT_LEFT: return micro_block<MICRO_SHIFT_LEFT>(operand, m, vectors);
        case MICRO_SHIFT_RIGHT: return micro_block<MICRO_SHIFT_RIGHT>(operand, m, vectors);
        case MICRO_INT_FLOOR_DIV: return micro_block<MICRO_INT_FLOOR_DIV>(operand, m, vectors);
        default: return;
    }
}

}  // namespace fpga
