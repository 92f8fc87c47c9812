// Columns of numbers and texts, as files of tables hold them. No LibTorch.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace lockstep::formats {

// False for NaN, infinities and what float32 cannot hold: such numbers count as missing.
inline bool is_usable(double number) {
  return std::abs(number) <= static_cast<double>(std::numeric_limits<float>::max());
}

// The values of one column; one of the two kinds. A column of lists of equal length is as many
// columns, "name[0]", "name[1]", ...
struct TableColumn {
  std::string name;
  std::string list;  // the column of lists that it is an element of
  bool is_text = false;
  std::vector<double> numbers;     // not is_usable(): missing
  std::vector<int32_t> codes;      // which of `words` each row has; -1: missing
  std::vector<std::string> words;  // in the order of their first appearance
  bool is_complete = false;        // known to miss no value

  bool is_missing(size_t row) const { return is_text ? codes[row] < 0 : !is_usable(numbers[row]); }
  // Looks at every value, unless that is known: without an early end, which would keep the compiler
  // from looking at several at once.
  bool has_missing() const {
    if (is_complete) return false;
    int64_t missing = 0;
    for (const auto code : codes) missing += code < 0;
    for (const auto number : numbers) missing += !is_usable(number);
    return missing > 0;
  }
};

struct DataTable {
  std::string name;  // of the file, for messages
  size_t rows = 0;
  std::vector<TableColumn> columns;
  std::vector<int64_t> places;  // of each row: its line, or its number in the file; may be empty
  const char* place = "row";    // what the places count: "line" or "row"
  std::vector<std::string> index_columns;  // of those in the file: they number its rows
  int64_t bad_rows = 0;                    // left out because they could not be read
  std::string first_bad_row;               // where it is and what was wrong with it

  // "flights.csv: line 17", for messages.
  std::string where(size_t row) const;

  // The column called `wanted`. Throws Config, naming the nearest one.
  const TableColumn& column(const std::string& wanted) const;
};

// The name of element `index` of a column of lists.
inline std::string element_name(const std::string& column, size_t index) {
  return column + "[" + std::to_string(index) + "]";
}

// Of all columns, those of lists once.
std::vector<std::string> column_names(const DataTable& table);

// Leaves out all columns but `names`, which come in that order; of lists, all their elements.
// Throws Config for a name that is not there.
void choose_columns(DataTable& table, const std::vector<std::string>& names);

// Leaves out the rows for which `kept` is false.
void keep_rows(DataTable& table, const std::vector<bool>& kept);

}  // namespace lockstep::formats
