// Human-readable tables and ages.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace lockstep::cli {

using TextRow = std::vector<std::string>;

// Each column is as wide as its widest cell. Control characters are escaped, since cells may hold
// text from other users. `rows` must not be empty.
void print_aligned(std::vector<TextRow> rows, std::ostream& out);

// "12 s", "5 min", "47 h", "3 days"; "-" for an invalid age.
std::string age_text(double seconds);

}  // namespace lockstep::cli
