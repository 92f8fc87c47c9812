// JSON Lines: one object per line; its values are the cells of a row. No LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "formats/table/table.h"

namespace lockstep::formats {

struct JsonlFormat {
  std::vector<std::string> columns;  // the columns to read, in this order; empty: all
  int64_t max_bad_rows = 0;          // the number of invalid lines that are skipped and counted
};

// Parses untrusted text. The columns are the keys of all objects, in the order of their first
// appearance. Values are numbers, booleans (1 and 0), strings, and lists of numbers, which must
// have the same length in every line. null and absent keys are missing values. `name` is used as
// the file name in messages.
//
// Throws Config, naming the line: no lines, a column that is not in any line, and, if there are
// more than max_bad_rows of them, lines that are not an object of such values, or whose values
// differ in type from previous lines.
DataTable parse_jsonl(std::string_view text, const JsonlFormat& format, const std::string& name);

// Reads and parses a file, optionally compressed with gzip or zstd. Throws Environment if it cannot
// be read or changes while it is being read.
DataTable read_jsonl_file(const std::filesystem::path& path, const JsonlFormat& format);

}  // namespace lockstep::formats
