#include "data/table_batch.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace lockstep {
namespace {

void gather_features(const TableEncoding& encoding, const EncodedRows& block,
                     std::span<const int64_t> rows, std::span<const int64_t> places, float* out) {
  const auto width = encoding.num_features();
  for (const auto& place : encoding.places()) {
    if (!place.is_text) {
      const auto* column = block.numbers[place.column].data();
      for (size_t i = 0; i < rows.size(); ++i)
        out[places[i] * width + place.feature] = column[rows[i]];
      continue;
    }
    const auto* codes = block.codes[place.column].data();
    for (size_t i = 0; i < rows.size(); ++i) {
      auto* first = out + places[i] * width + place.feature;
      std::fill_n(first, place.width, 0.0f);
      if (place.width > 0 && codes[rows[i]] > 0) first[codes[rows[i]] - 1] = 1;
    }
  }
}

}  // namespace

std::vector<FieldLayout> table_layout(const TableEncoding& encoding) {
  std::vector<FieldLayout> layout;
  if (encoding.num_features() > 0)
    layout.push_back({"features", at::kFloat, {encoding.num_features()}});
  if (!encoding.one_hot() && encoding.num_categories() > 0)
    layout.push_back({"categories", at::kLong, {encoding.num_categories()}});
  if (encoding.has_label())
    layout.push_back({"label", encoding.labels_are_classes() ? at::kLong : at::kFloat, {}});
  return layout;
}

void gather_rows(const TableEncoding& encoding, const EncodedRows& block,
                 std::span<const int64_t> rows, std::span<const int64_t> places,
                 std::span<const at::Tensor> fields) {
  size_t next = 0;
  if (encoding.num_features() > 0)
    gather_features(encoding, block, rows, places, fields[next++].data_ptr<float>());
  if (!encoding.one_hot() && encoding.num_categories() > 0) {
    auto* out = fields[next++].data_ptr<int64_t>();
    const auto width = encoding.num_categories();
    for (size_t c = 0; c < block.codes.size(); ++c)
      for (size_t i = 0; i < rows.size(); ++i)
        out[places[i] * width + static_cast<int64_t>(c)] =
            block.codes[c][static_cast<size_t>(rows[i])];
  }
  if (!encoding.has_label()) return;
  if (encoding.labels_are_classes()) {
    auto* out = fields[next].data_ptr<int64_t>();
    for (size_t i = 0; i < rows.size(); ++i)
      out[places[i]] = block.classes[static_cast<size_t>(rows[i])];
  } else {
    auto* out = fields[next].data_ptr<float>();
    for (size_t i = 0; i < rows.size(); ++i)
      out[places[i]] = block.values[static_cast<size_t>(rows[i])];
  }
}

void add_labels(const TableEncoding& encoding, const EncodedRows& block,
                std::vector<double>& labels) {
  if (encoding.labels_are_classes())
    labels.insert(labels.end(), block.classes.begin(), block.classes.end());
  else
    labels.insert(labels.end(), block.values.begin(), block.values.end());
}

}  // namespace lockstep
