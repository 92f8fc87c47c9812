// Text files of separated values (RFC 4180: cells may be quoted, and then hold separators, line
// breaks and doubled quotes). No LibTorch.
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
  bool header = true;                // the first record has the names
  std::vector<std::string> names;    // of all columns, where there is no header
  std::vector<std::string> columns;  // those that are read, in this order; empty: all
  // Of columns whose type is not to be inferred: {name, true for text}.
  std::vector<std::pair<std::string, bool>> is_text;
  std::vector<std::string> missing = {"",    "NA",  "N/A", "n/a",  "#N/A", "<NA>",
                                      "NaN", "nan", "NaT", "null", "NULL", "None"};
  int64_t max_bad_rows = 0;  // so many records that cannot be read are left out and counted
};

// The table in `text`, which may be anything. A column that is not declared is of numbers when all
// its cells are numbers, all truth values, or all dates and times (formats/table/cell_value.h), or
// missing; of texts when most of its cells are texts. Empty lines are no records. `name` stands for
// the file in messages.
//
// Throws Config, naming the line: another format than CSV, no records, a column that is not there
// or there twice, a column that is not declared and mixes numbers and other cells, and, once there
// are more than max_bad_rows of them, records of a wrong number of cells, with a quote that is not
// closed or text behind it, with a text where a number was declared, or that are not UTF-8.
DataTable parse_csv(std::string_view text, const CsvFormat& format, const std::string& name);

// The same for a file, plain or compressed with gzip or zstd, told apart by content. Throws
// Environment when it cannot be read or changes meanwhile.
DataTable read_csv_file(const std::filesystem::path& path, const CsvFormat& format);

}  // namespace lockstep::formats
