// CSV fields (RFC 4180).
#pragma once

#include <string>
#include <string_view>

namespace lockstep::tracking {

// Quoted if it contains a comma, a quote or a line break.
std::string csv_field(std::string_view text);

// NaN is "nan", whatever its sign.
std::string csv_number(double value);

}  // namespace lockstep::tracking
