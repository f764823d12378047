// Sizes that change from call to call: a list of steps, each of which computes one register from the inputs' sizes,
// constants and earlier registers. Integers of 64 bits; an overflow is an error.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "json.hpp"

namespace fd {

using registers = std::vector<int64_t>;
// Of each input of a call, its shape.
using shapes = std::vector<std::vector<int64_t>>;

// A constant, or the register at `index`.
struct number {
    int64_t constant = 0;
    int32_t index = -1;
    bool is_constant() const { return index < 0; }
    int64_t at(const registers& values) const { return is_constant() ? constant : values[static_cast<size_t>(index)]; }
};

// A whole number from 0 on, "-3" or "$5" (a register below `known`). Throws model_error.
number read_number(const card_model::json::value& given, size_t known);

enum class relation { equal, unequal, greater, at_least };  // than 0

// What must hold for a call. says: the condition in terms of the model's sizes.
struct size_guard {
    number value;
    relation how;
    std::string says;
    bool holds(const registers& values) const;
};

class size_program {
public:
    // [["input", position, dimension], ["add", a, b], ...]: add, mul, floor, ceil (quotients), max, min.
    explicit size_program(const card_model::json::value& steps);
    size_t count() const { return steps_.size(); }
    // Throws model_error for an overflow or a division by zero. The inputs must have the dimensions that check() found.
    registers evaluate(const shapes& inputs) const;
    // Throws model_error if a step reads an input or a dimension that is not there. ranks: of each input.
    void check(const std::vector<size_t>& ranks) const;

private:
    enum class operation { input, add, multiply, floor, ceil, max, min };
    struct step {
        operation what;
        number a, b;
    };
    std::vector<step> steps_;
};

}  // namespace fd
