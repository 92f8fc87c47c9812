#include "models/language_model.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "lockstep/error.h"

namespace lockstep::models {
namespace {

at::Tensor as_column(const std::vector<int64_t>& numbers, at::Device device) {
  return at::tensor(numbers, at::kLong).to(device).unsqueeze(1);
}

}  // namespace

KeyValueCache::KeyValueCache(int64_t sequences, int64_t capacity)
    : capacity_(capacity), lengths_(static_cast<size_t>(sequences), 0) {}

void KeyValueCache::begin(const std::vector<int64_t>& counts, int64_t tokens, at::Device device) {
  check(counts.size() == lengths_.size(), "a pass has another number of sequences than the cache");
  counts_ = counts;
  const auto longest = *std::ranges::max_element(lengths_);
  is_first_ = longest == 0;
  span_ = longest + tokens;
  check(span_ <= capacity_, "a sequence is longer than the cache");
  positions_ = as_column(lengths_, device) + at::arange(tokens, at::TensorOptions(device));
}

at::Tensor KeyValueCache::mask(int64_t window) const {
  const auto keys = at::arange(span_, positions_.options());
  const auto queries = positions_.unsqueeze(2);  // [B, T, 1]
  auto seen = keys.le(queries);
  if (window > 0) seen = seen.logical_and(keys.gt(queries - window));
  return seen.unsqueeze(1);
}

KeyValueCache::KeysAndValues KeyValueCache::add(size_t layer, const at::Tensor& keys,
                                                const at::Tensor& values) {
  if (layers_.size() <= layer) layers_.resize(layer + 1);
  auto& own = layers_[layer];
  const auto write = [&](at::Tensor& all, const at::Tensor& part) {
    if (!all.defined())
      all = at::zeros({part.size(0), part.size(1), capacity_, part.size(3)}, part.options());
    const auto places = positions_.unsqueeze(1).unsqueeze(3).expand(part.sizes());
    all.scatter_(2, places, part);
    return all.narrow(2, 0, span_);
  };
  return {write(own.keys, keys), write(own.values, values)};
}

at::Tensor KeyValueCache::end(const at::Tensor& x) {
  const auto last = as_column(counts_, x.device()) - 1;  // [B, 1]
  for (size_t i = 0; i < counts_.size(); ++i) lengths_[i] += counts_[i];
  return x.gather(1, last.unsqueeze(2).expand({-1, 1, x.size(2)})).squeeze(1);
}

KeyValueCache::KeysAndValues LayerCache::add(const at::Tensor& keys,
                                             const at::Tensor& values) const {
  if (!cache) return {keys, values};
  const auto all = cache->add(layer, keys, values);
  return cache->is_first() ? KeyValueCache::KeysAndValues{keys, values} : all;
}

void KeyValueCache::keep(const std::vector<int64_t>& rows) {
  std::vector<int64_t> lengths;
  for (const auto row : rows) lengths.push_back(lengths_[static_cast<size_t>(row)]);
  lengths_ = std::move(lengths);
  for (auto& [keys, values] : layers_) {
    const auto index = at::tensor(rows, at::kLong).to(keys.device());
    keys = keys.index_select(0, index);
    values = values.index_select(0, index);
  }
}

}  // namespace lockstep::models
