// CSV files (RFC 4180: quoted cells may contain separators, line breaks and doubled quotes). No
// LibTorch.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/table/table.h"

namespace lockstep::formats {

struct CsvFormat {
  char separator = ',';
  char decimal = '.';                // or ','
  bool header = true;                // whether the first record contains the column names
  std::vector<std::string> names;    // of all columns, if there is no header
  std::vector<std::string> columns;  // the columns to read, in this order; empty: all
  // Columns with declared types: {name, true for text}. Other types are inferred.
  std::vector<std::pair<std::string, bool>> is_text;
  std::vector<std::string> missing = {"",    "NA",  "N/A", "n/a",  "#N/A", "<NA>",
                                      "NaN", "nan", "NaT", "null", "NULL", "None"};
  int64_t max_bad_rows = 0;  // the number of invalid records that are skipped and counted
};

// Parses untrusted text. A column without a declared type is numeric if its cells, except missing
// ones, are all numbers, all booleans, or all dates and times (formats/table/cell_value.h); it is a
// text column if most of its cells are text. Empty lines are ignored. `name` is used as the file
// name in messages.
//
// Throws Config, naming the line: a format other than CSV, no records, a missing or duplicate
// column, a column without a declared type that mixes numbers and other cells; and, if there are
// more than max_bad_rows of them, records with a wrong number of cells, an unclosed quote, text
// after a quoted cell, text in a numeric column, or invalid UTF-8.
DataTable parse_csv(std::string_view text, const CsvFormat& format, const std::string& name);

// Reads and parses a file, optionally compressed with gzip or zstd (detected by content). Throws
// Environment if it cannot be read or changes while it is being read.
DataTable read_csv_file(const std::filesystem::path& path, const CsvFormat& format);

}  // namespace lockstep::formats
