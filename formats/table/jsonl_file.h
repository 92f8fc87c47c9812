// JSON Lines: one object per line, whose values are the cells of a row. No LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "formats/table/table.h"

namespace lockstep::formats {

struct JsonlFormat {
  std::vector<std::string> columns;  // those that are read, in this order; empty: all
  int64_t max_bad_rows = 0;          // so many lines that cannot be read are left out and counted
};

// The table in `text`, which may be anything. The columns are the keys of all objects, in the order
// of their first appearance. Numbers, truth values (1 and 0), texts, and lists of numbers, which
// have the same length in every line; a key that is not there and null are missing values. `name`
// stands for the file in messages.
//
// Throws Config, naming the line: no lines, a column that is in no line, and, once there are more
// than max_bad_rows of them, lines that are not an object of such values, or whose values are of
// another type than in the lines before.
DataTable parse_jsonl(std::string_view text, const JsonlFormat& format, const std::string& name);

// The same for a file, plain or compressed with gzip or zstd. Throws Environment when it cannot be
// read or changes meanwhile.
DataTable read_jsonl_file(const std::filesystem::path& path, const JsonlFormat& format);

}  // namespace lockstep::formats
