// Collects lists of numbers of one length as table columns, one per element.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/printable.h"
#include "formats/parquet/arrow_columns.h"
#include "lockstep/error.h"

namespace lockstep::formats {

// Collects lists as they are read.
class ListNumbers {
 public:
  // `width`: the length of all lists; 0: that of the first one that is not empty.
  ListNumbers(const std::string& column, const DataTable& table, size_t max_values,
              size_t width = 0)
      : name_(column), table_(table), max_values_(max_values), width_(width) {}

  void begin_row() {
    end_row();
    if (row_ends_.size() >= table_.rows) throw refused("has more lists than rows");
    in_row_ = true;
  }
  void add(double value) {
    if (values_.size() == max_values_) throw too_large();
    values_.push_back(value);
  }

  // The lists as one column per element. A null or empty list becomes missing values.
  std::vector<TableColumn> columns() {
    end_row();
    if (row_ends_.size() != table_.rows)
      throw refused(fmt::format("has {} lists for {} rows", row_ends_.size(), table_.rows));
    if (width_ > kMaxListLength) throw refused(too_long_list(width_));
    std::vector<TableColumn> columns(width_);
    for (size_t i = 0; i < width_; ++i) {
      columns[i].name = element_name(name_, i);
      columns[i].list = name_;
    }
    size_t begin = 0;
    for (const auto end : row_ends_) {
      for (size_t i = 0; i < width_; ++i)
        columns[i].numbers.push_back(end > begin ? values_[begin + i] : kNaN);
      begin = end;
    }
    if (width_ == 0) throw refused("has only empty lists");
    return columns;
  }

 private:
  void end_row() {
    if (!in_row_) return;
    const auto length = values_.size() - (row_ends_.empty() ? 0 : row_ends_.back());
    if (width_ == 0) width_ = length;
    if (length != 0 && length != width_)
      throw config_error(fmt::format(
          "{}: column '{}' has a list of length {}, but length {} in previous rows: all "
          "lists must have the same length",
          table_.where(row_ends_.size()), printable(name_), length, width_));
    row_ends_.push_back(values_.size());
  }
  Error too_large() const {
    return refused(fmt::format("has more than {} numbers, the memory limit", max_values_));
  }
  Error refused(const std::string& why) const {
    return config_error(fmt::format("{}: column '{}' {}", table_.name, printable(name_), why));
  }

  const std::string& name_;
  const DataTable& table_;
  size_t max_values_, width_;
  bool in_row_ = false;
  std::vector<double> values_;
  std::vector<size_t> row_ends_;
};

}  // namespace lockstep::formats
