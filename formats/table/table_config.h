// Config of table datasets: how columns become features and labels. No LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/config_fields.h"
#include "lockstep/config_value.h"

namespace lockstep::formats {

enum class LabelKind { Auto, Class, Value };
constexpr auto choices(LabelKind) { return std::array{"auto", "class", "value"}; }

// Handling of missing values.
enum class MissingValues { Error, Drop, Fill };
constexpr auto choices(MissingValues) { return std::array{"error", "drop", "fill"}; }

struct TableConfig {
  std::vector<std::string> columns;
  std::optional<std::string> label;
  LabelKind label_kind = LabelKind::Auto;
  std::optional<double> label_above;
  MissingValues missing = MissingValues::Error;
  bool standardize = false;
  bool one_hot = true;
  int64_t max_words = 100;
};

template <class V>
void fields(V& v, TableConfig& c) {
  v("columns", c.columns,
    "the feature columns, in this order (default: all except the label and the pandas index)");
  v("label", c.label, "the column to predict");
  v("label_kind", c.label_kind,
    "class: int64, integers unchanged, strings numbered in sorted order; value: float32; auto: "
    "class for strings and non-negative integers; must be set for integers from -1 to 1");
  v("label_above", c.label_above, "two classes: 1 where the label is above this, else 0");
  v("missing", c.missing,
    "missing values and infinite numbers: error, drop their rows, or fill: numbers with the mean "
    "of the training rows, strings as unknown");
  v("standardize", c.standardize,
    "numbers become (x - mean) / standard deviation, both of the training rows");
  v("one_hot", c.one_hot,
    "strings become one feature per distinct string of the training rows; false: a field "
    "'categories' with the number of each string, 0 if unknown");
  v("max_words", c.max_words,
    "with one_hot, a column with more distinct strings than this in the training rows is an error",
    at_least(1));
}

}  // namespace lockstep::formats
