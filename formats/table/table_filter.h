// Filters table rows by comparing columns with constants. No LibTorch.
#pragma once

#include <string>
#include <vector>

#include "formats/table/table.h"

namespace lockstep::formats {

// "month >= 6", "carrier == AA". Missing values never pass.
struct ColumnTest {
  enum class Relation { Less, LessOrEqual, Equal, NotEqual, GreaterOrEqual, Greater };
  std::string column;
  Relation relation = Relation::Equal;
  std::string text;   // the constant
  double number = 0;  // the constant as a number; NaN if it is not a number

  template <class T>
  bool holds(const T& value, const T& other) const {
    switch (relation) {
      case Relation::Less: return value < other;
      case Relation::LessOrEqual: return value <= other;
      case Relation::Equal: return value == other;
      case Relation::NotEqual: return value != other;
      case Relation::GreaterOrEqual: return value >= other;
      case Relation::Greater: return value > other;
    }
    return false;
  }

  // False if no value in [min, max] passes.
  template <class T>
  bool may_hold(const T& min, const T& max, const T& other) const {
    switch (relation) {
      case Relation::Less: return min < other;
      case Relation::LessOrEqual: return min <= other;
      case Relation::Equal: return min <= other && other <= max;
      case Relation::NotEqual: return !(min == other && max == other);
      case Relation::GreaterOrEqual: return max >= other;
      case Relation::Greater: return max > other;
    }
    return true;
  }
};

// A row passes if all tests hold.
using RowFilter = std::vector<ColumnTest>;

// Parses a column, one of < <= == != >= >, and a number or string, optionally quoted. Throws
// Config.
ColumnTest parse_column_test(const std::string& text);

// Clears `kept` for rows that do not pass. `table` must have the columns of the filter. Throws
// Config if a numeric column is compared with a string.
void apply_filter(const RowFilter& filter, const DataTable& table, std::vector<bool>& kept);

}  // namespace lockstep::formats
