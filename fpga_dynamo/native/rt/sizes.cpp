#include "sizes.hpp"

#include <algorithm>
#include <cstdlib>

#include "model_error.hpp"

namespace fd {

using card_model::json::value;

namespace {

[[noreturn]] void damaged(const std::string& what) {
    throw invalid_model("the sizes of the model are damaged: " + what);
}

int64_t floor_divide(int64_t a, int64_t b) {
    const int64_t quotient = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

}  // namespace

number read_number(const value& given, size_t known) {
    if (given.kind() == value::type::number) return {static_cast<int64_t>(given.as_unsigned("size")), -1};
    const std::string& text = given.as_string("size");
    const bool is_register = !text.empty() && text.front() == '$', is_negative = !text.empty() && text.front() == '-';
    const std::string digits = text.substr(is_register || is_negative ? 1 : 0);
    if ((!is_register && !is_negative) || digits.empty() || digits.size() > 15 ||
        digits.find_first_not_of("0123456789") != std::string::npos)
        damaged("'" + text.substr(0, 40) + "' is no number");
    const int64_t count = std::strtoll(digits.c_str(), nullptr, 10);
    if (is_negative) return {-count, -1};
    if (static_cast<uint64_t>(count) >= known) damaged("size $" + digits + " is used before it is computed");
    return {0, static_cast<int32_t>(count)};
}

bool size_guard::holds(const registers& values) const {
    const int64_t found = value.at(values);
    switch (how) {
        case relation::equal: return found == 0;
        case relation::unequal: return found != 0;
        case relation::greater: return found > 0;
        default: return found >= 0;
    }
}

size_program::size_program(const value& steps) {
    static const std::pair<const char*, operation> names[] = {
        {"input", operation::input}, {"add", operation::add}, {"mul", operation::multiply}, {"floor", operation::floor},
        {"ceil", operation::ceil},   {"max", operation::max}, {"min", operation::min}};
    for (const value& given : steps.as_array("sizes")) {
        const auto& parts = given.as_array("step");
        if (parts.size() != 3) damaged("a step needs a name and two operands");
        const std::string& name = parts[0].as_string("operation");
        const auto* found = std::find_if(std::begin(names), std::end(names),
                                         [&](const auto& one) { return name == one.first; });
        if (found == std::end(names)) damaged("there is no operation '" + name.substr(0, 40) + "'");
        steps_.push_back({found->second, read_number(parts[1], steps_.size()), read_number(parts[2], steps_.size())});
        const step& last = steps_.back();
        if (last.what == operation::input && !(last.a.is_constant() && last.b.is_constant()))
            damaged("the position of an input must be a constant");
    }
}

void size_program::check(const std::vector<size_t>& ranks) const {
    for (const step& one : steps_) {
        if (one.what != operation::input) continue;
        const auto position = static_cast<uint64_t>(one.a.constant), dimension = static_cast<uint64_t>(one.b.constant);
        if (position >= ranks.size() || dimension >= ranks[position])
            damaged("dimension " + std::to_string(dimension) + " of input " + std::to_string(position) +
                    " does not exist");
    }
}

registers size_program::evaluate(const shapes& inputs) const {
    registers values;
    values.reserve(steps_.size());
    for (const step& one : steps_) {
        const int64_t a = one.a.at(values), b = one.b.at(values);
        int64_t result = 0;
        bool overflows = false;
        switch (one.what) {
            case operation::input: result = inputs[static_cast<size_t>(a)][static_cast<size_t>(b)]; break;
            case operation::add: overflows = __builtin_add_overflow(a, b, &result); break;
            case operation::multiply: overflows = __builtin_mul_overflow(a, b, &result); break;
            case operation::max: result = std::max(a, b); break;
            case operation::min: result = std::min(a, b); break;
            case operation::floor:
            case operation::ceil:
                if (b == 0 || (a == INT64_MIN && b == -1))
                    throw invalid_argument("the inputs have sizes that the model cannot divide by");
                result = one.what == operation::floor ? floor_divide(a, b) : -floor_divide(-a, b);
                break;
        }
        if (overflows) throw invalid_argument("the inputs are too large: a size of the model overflows 64 bits");
        values.push_back(result);
    }
    return values;
}

}  // namespace fd
