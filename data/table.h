// Columns of numbers and texts, as files of tables hold them. No LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

// The values of one column; one of the two kinds.
struct TableColumn {
  std::string name;
  bool is_text = false;
  std::vector<double> numbers;     // NaN: missing
  std::vector<int32_t> codes;      // which of `words` each row has; -1: missing
  std::vector<std::string> words;  // in the order of their first appearance
  bool is_complete = false;        // known to miss no value

  bool is_missing(size_t row) const {
    return is_text ? codes[row] < 0 : numbers[row] != numbers[row];
  }
  // Looks at every value, unless that is known: without an early end, which would keep the compiler
  // from looking at several at once.
  bool has_missing() const {
    if (is_complete) return false;
    int64_t missing = 0;
    for (const auto code : codes) missing += code < 0;
    for (const auto number : numbers) missing += number != number;
    return missing > 0;
  }
};

struct DataTable {
  std::string name;  // of the file, for messages
  size_t rows = 0;
  std::vector<TableColumn> columns;
  std::vector<int64_t> places;  // of each row: its line, or its number in the file; may be empty
  const char* place = "row";    // what the places count: "line" or "row"
  int64_t bad_rows = 0;         // left out because they could not be read
  std::string first_bad_row;    // where it is and what was wrong with it

  // "flights.csv: line 17", for messages.
  std::string where(size_t row) const;

  // The column called `wanted`. Throws Config, naming the nearest one.
  const TableColumn& column(const std::string& wanted) const;
};

// Leaves out the rows for which `kept` is false.
void keep_rows(DataTable& table, const std::vector<bool>& kept);

}  // namespace lockstep
