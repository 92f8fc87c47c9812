// In-memory tables with columns of numbers and strings. No LibTorch.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace lockstep::formats {

// False for NaN, infinities and numbers out of the range of float32, which count as missing.
inline bool is_usable(double number) {
  return std::abs(number) <= static_cast<double>(std::numeric_limits<float>::max());
}

// The greatest integer up to which float64 has all of them.
inline constexpr double kMaxExactInteger = 0x1p53;

// A column of either numbers or strings. A column of lists of equal length is stored as one column
// per element, "name[0]", "name[1]", ...
struct TableColumn {
  std::string name;
  std::string list;  // name of the list column that this is an element of; may be empty
  bool is_text = false;
  bool is_unknown = false;         // has no values, so that other rows say what it is
  std::vector<double> numbers;     // missing if not is_usable()
  std::vector<int32_t> codes;      // index in `words` for each row; -1: missing
  std::vector<std::string> words;  // distinct strings in the order of their first appearance
  bool is_complete = false;        // known to have no missing values

  bool is_missing(size_t row) const { return is_text ? codes[row] < 0 : !is_usable(numbers[row]); }
  // Scans all values unless is_complete; without an early exit, so that the loop can be vectorized.
  bool has_missing() const {
    if (is_complete) return false;
    int64_t missing = 0;
    for (const auto code : codes) missing += code < 0;
    for (const auto number : numbers) missing += !is_usable(number);
    return missing > 0;
  }
};

// What a column has, as far as it is known without reading it.
enum class ColumnKind {
  Unknown,
  Lists,  // of numbers
  Numbers,
  Texts,
  Bytes  // also encoded images
};

struct DataTable {
  std::string name;  // of the file, for messages
  size_t rows = 0;
  std::vector<TableColumn> columns;
  std::vector<int64_t> places;  // line or row number of each row in the file; may be empty
  const char* place = "row";    // unit of `places`: "line" or "row"
  std::vector<std::string> index_columns;  // columns of the file that store a pandas index
  int64_t bad_rows = 0;                    // number of skipped invalid rows
  std::string first_bad_row;               // location and error of the first one

  // "flights.csv: line 17", for messages.
  std::string where(size_t row) const {
    const auto number = row < places.size() ? places[row] : static_cast<int64_t>(row) + 1;
    return name + ": " + place + " " + std::to_string(number);
  }

  // The column called `column_name`. Throws Config, naming the nearest one.
  const TableColumn& column(const std::string& column_name) const;
};

// The greatest length of the lists of a column, each element of which becomes a column.
inline constexpr size_t kMaxListLength = size_t{1} << 20;
// For messages.
inline std::string too_long_list(size_t length) {
  return "has lists of length " + std::to_string(length) + ", but the limit is " +
         std::to_string(kMaxListLength);
}

// The column name of element `index` of a list column.
inline std::string element_name(const std::string& column, size_t index) {
  return column + "[" + std::to_string(index) + "]";
}

// The names of all columns; each list column once.
std::vector<std::string> column_names(const DataTable& table);

// Keeps only the columns `names`, in that order; a list column keeps all its elements. Throws
// Config for an unknown name.
void choose_columns(DataTable& table, const std::vector<std::string>& names);

// Removes the rows for which `kept` is false.
void keep_rows(DataTable& table, const std::vector<bool>& kept);

}  // namespace lockstep::formats
