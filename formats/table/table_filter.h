// Which rows of a table are used: comparisons of columns with constants. No LibTorch.
#pragma once

#include <string>
#include <vector>

#include "formats/table/table.h"

namespace lockstep::formats {

// "month >= 6", "carrier == AA". A missing value passes none.
struct ColumnTest {
  enum class Relation { Less, LessOrEqual, Equal, NotEqual, GreaterOrEqual, Greater };
  std::string column;
  Relation relation = Relation::Equal;
  std::string text;   // what it is compared with
  double number = 0;  // the same; NaN when it is no number

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

  // False when no value in [least, greatest] passes.
  template <class T>
  bool may_hold(const T& least, const T& greatest, const T& other) const {
    switch (relation) {
      case Relation::Less: return least < other;
      case Relation::LessOrEqual: return least <= other;
      case Relation::Equal: return least <= other && other <= greatest;
      case Relation::NotEqual: return !(least == other && greatest == other);
      case Relation::GreaterOrEqual: return greatest >= other;
      case Relation::Greater: return greatest > other;
    }
    return true;
  }
};

// All of them must hold.
using RowFilter = std::vector<ColumnTest>;

// Column, one of < <= == != >= >, then a number or text, which may be in quotes. Throws Config.
ColumnTest parse_column_test(const std::string& text);

// Clears `kept` where a row does not pass. `table` has the columns of the filter. Throws Config: a
// column of numbers is compared with a text.
void apply_filter(const RowFilter& filter, const DataTable& table, std::vector<bool>& kept);

}  // namespace lockstep::formats
