// The part of a dataset's config that is about the columns of a table. No LibTorch.
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

// What becomes of missing values.
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
    "what the features are made of, in this order (default: all but label and pandas' index)");
  v("label", c.label, "the column that is to be predicted");
  v("label_kind", c.label_kind,
    "class: int64, whole numbers as they are, texts numbered in sorted order; value: float32; "
    "auto: class for texts and whole numbers from 0 on; labels from -1 to 1 must be told");
  v("label_above", c.label_above, "two classes: 1 where the label is above this, else 0");
  v("missing", c.missing,
    "missing values and infinite numbers: error, drop their rows, or fill: numbers with the mean "
    "of the training rows, texts as unknown");
  v("standardize", c.standardize,
    "numbers become (x - mean) / standard deviation, both of the training rows");
  v("one_hot", c.one_hot,
    "texts become one feature per word of the training rows; false: a field 'categories' with the "
    "number of each word, 0 for an unknown one");
  v("max_words", c.max_words,
    "a column with more different texts than this among the training rows is an error with one_hot",
    at_least(1));
}

}  // namespace lockstep::formats
