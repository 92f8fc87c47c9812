// JSON of metrics, as values or, for responses with many numbers, appended to a string directly.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/config_value.h"

namespace lockstep::catalog {

// NaN and infinities become "nan", "inf" and "-inf"; any other number round-trips.
void append_number(std::string& text, double value);
void append_numbers(std::string& text, std::span<const double> values);
// NaN becomes null.
void append_numbers_or_null(std::string& text, std::span<const double> values);
// In quotes; bytes that are not UTF-8 are replaced.
void append_text(std::string& text, std::string_view value);

// As append_number().
Json number_value(double value);
// A copy without NaN and infinities.
Json finite_value(const Json& json);
// Invalid UTF-8 is replaced. `indent` -1: on one line.
std::string to_text(const Json& json, int indent = -1);

// {"optimizer": {"lr": 0.1}} as {"optimizer.lr": 0.1}; lists are values.
std::map<std::string, Json> leaves_of(const Json& json);

}  // namespace lockstep::catalog
