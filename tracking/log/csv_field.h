// Fields of CSV files, as in RFC 4180.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::tracking {

// In quotes where it has a comma, a quote or a line break.
std::string csv_field(std::string_view text);

// "nan" whatever the sign of a NaN is.
std::string csv_number(double value);

}  // namespace lockstep::tracking
