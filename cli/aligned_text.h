// Tables and ages for people.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace lockstep::cli {

using TextRow = std::vector<std::string>;

// Columns are as wide as their widest cell; the last one ends the line. Control characters are
// escaped: cells may hold text from other users. Not empty.
void print_aligned(std::vector<TextRow> rows, std::ostream& out);

// "12 s", "5 min", "47 h", "3 days"; "-" for what can be no age.
std::string age_text(double seconds);

}  // namespace lockstep::cli
