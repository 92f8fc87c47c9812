#include "data/table_batch.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "data/row_prefetch.h"

namespace lockstep::data {
namespace {

void gather_numbers(const formats::TableEncoding& encoding, const float* numbers, float* out) {
  for (const auto& place : encoding.places())
    if (!place.is_text) out[place.feature] = numbers[place.column];
}

void gather_words(const formats::TableEncoding& encoding, const formats::EncodedRows& block,
                  size_t row, float* out) {
  for (const auto& place : encoding.places()) {
    if (!place.is_text) continue;
    std::fill_n(out + place.feature, place.width, 0.0f);
    const auto code = block.codes[place.column][row];
    if (place.width > 0 && code > 0) out[place.feature + code - 1] = 1;
  }
}

void gather_features(const formats::TableEncoding& encoding, const formats::EncodedRows& block,
                     std::span<const int64_t> rows, std::span<const int64_t> places, float* out) {
  const auto width = encoding.num_features(), num_numbers = encoding.num_numbers();
  const auto* base = reinterpret_cast<const uint8_t*>(block.numbers.data());
  const auto row_bytes = static_cast<size_t>(num_numbers) * sizeof(float);
  for (size_t i = 0; i < rows.size(); ++i) {
    prefetch_row(base, row_bytes, rows, i, kShortRowsAhead);
    const auto* numbers = block.numbers.data() + rows[i] * num_numbers;
    auto* features = out + places[i] * width;
    if (num_numbers == width) {
      std::copy_n(numbers, width, features);
      continue;
    }
    gather_numbers(encoding, numbers, features);
    gather_words(encoding, block, static_cast<size_t>(rows[i]), features);
  }
}

}  // namespace

std::vector<FieldLayout> table_layout(const formats::TableEncoding& encoding) {
  std::vector<FieldLayout> layout;
  if (encoding.num_features() > 0)
    layout.push_back({"features", at::kFloat, {encoding.num_features()}});
  if (!encoding.one_hot() && encoding.num_categories() > 0)
    layout.push_back({"categories", at::kLong, {encoding.num_categories()}});
  if (encoding.has_label())
    layout.push_back({"label", encoding.labels_are_classes() ? at::kLong : at::kFloat, {}});
  return layout;
}

void gather_rows(const formats::TableEncoding& encoding, const formats::EncodedRows& block,
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

void add_labels(const formats::TableEncoding& encoding, const formats::EncodedRows& block,
                std::vector<double>& labels) {
  if (encoding.labels_are_classes())
    labels.insert(labels.end(), block.classes.begin(), block.classes.end());
  else
    labels.insert(labels.end(), block.values.begin(), block.values.end());
}

}  // namespace lockstep::data
