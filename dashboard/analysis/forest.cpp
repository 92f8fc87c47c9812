#include "dashboard/analysis/forest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

namespace lockstep::dashboard {
namespace {

constexpr size_t kMaxNodes = 1u << 14;

struct BinTotals {
  double sum = 0;
  size_t count = 0;
};

double score_of(const BinTotals& rows) {
  return rows.sum * rows.sum / static_cast<double>(rows.count);
}

// The decrease of the sum of squares when `left` is separated from the rest of `all`.
double gain_of(const BinTotals& left, const BinTotals& all, double score_of_all) {
  const auto right = BinTotals{.sum = all.sum - left.sum, .count = all.count - left.count};
  return score_of(left) + score_of(right) - score_of_all;
}

}  // namespace

BinnedParameter bin_numbers(std::span<const double> values) {
  std::vector<double> sorted;
  for (const auto value : values)
    if (!std::isnan(value)) sorted.push_back(value);
  std::ranges::sort(sorted);
  auto distinct = sorted;
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<double> upper;  // the largest value of each bin but the last
  if (distinct.size() <= kMaxBins - 1) {
    upper.assign(distinct.begin(), distinct.empty() ? distinct.end() : distinct.end() - 1);
  } else {
    for (size_t i = 1; i < kMaxBins - 1; ++i)
      upper.push_back(sorted[i * sorted.size() / (kMaxBins - 1)]);
    upper.erase(std::unique(upper.begin(), upper.end()), upper.end());
    if (upper.back() == sorted.back()) upper.pop_back();
  }
  BinnedParameter binned{.bin = std::vector<uint8_t>(values.size()),
                         .num_bins = static_cast<int>(upper.size()) + 2};
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isnan(values[i]))
      binned.bin[i] =
          static_cast<uint8_t>(1 + (std::ranges::lower_bound(upper, values[i]) - upper.begin()));
  return binned;
}

BinnedParameter bin_categories(std::span<const int> categories) {
  std::map<int, size_t> counts;
  for (const auto category : categories)
    if (category >= 0) ++counts[category];
  std::vector<int> order;
  for (const auto& [category, count] : counts) order.push_back(category);
  std::ranges::stable_sort(order, std::greater(), [&](int category) { return counts[category]; });
  std::map<int, uint8_t> bins;
  for (size_t i = 0; i < order.size(); ++i)
    bins[order[i]] = static_cast<uint8_t>(1 + std::min<size_t>(i, kMaxBins - 2));
  BinnedParameter binned{.bin = std::vector<uint8_t>(categories.size()),
                         .num_bins = static_cast<int>(std::min<size_t>(order.size() + 1, kMaxBins)),
                         .is_ordered = false};
  for (size_t i = 0; i < categories.size(); ++i)
    if (categories[i] >= 0) binned.bin[i] = bins[categories[i]];
  return binned;
}

void RegressionTree::fit(const std::vector<BinnedParameter>& parameters,
                         std::span<const double> target, std::vector<uint32_t> rows,
                         size_t min_leaf, std::mt19937_64& random) {
  nodes_.clear();
  grow(parameters, target, rows, std::max<size_t>(1, min_leaf), random);
}

RegressionTree::Split RegressionTree::best_split(const std::vector<BinnedParameter>& parameters,
                                                 std::span<const double> target,
                                                 std::span<const uint32_t> rows, size_t min_leaf,
                                                 std::mt19937_64& random) const {
  std::vector<size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto num_tried = std::max<size_t>(1, (parameters.size() + 2) / 3);
  BinTotals all{.sum = 0, .count = rows.size()};
  for (const auto row : rows) all.sum += target[row];
  const auto score_of_all = score_of(all);
  Split best;
  // Parameters that are constant in this node do not count as tried.
  for (size_t i = 0, tried = 0; i < order.size() && tried < num_tried; ++i) {
    std::swap(order[i], order[i + random() % (order.size() - i)]);
    const auto& parameter = parameters[order[i]];
    std::array<BinTotals, kMaxBins> bins{};
    for (const auto row : rows) {
      auto& bin = bins[parameter.bin[row]];
      bin.sum += target[row];
      ++bin.count;
    }
    BinTotals left;
    bool is_constant = true;
    for (int b = 0; b < parameter.num_bins; ++b) {
      const auto& bin = bins[static_cast<size_t>(b)];
      is_constant &= bin.count == 0 || bin.count == all.count;
      if (parameter.is_ordered) {
        left.sum += bin.sum;
        left.count += bin.count;
      } else {
        left = bin;
      }
      if (bin.count == 0 || left.count < min_leaf || all.count - left.count < min_leaf) continue;
      const auto gain = gain_of(left, all, score_of_all);
      if (gain > best.gain) best = {static_cast<int>(order[i]), b, gain};
    }
    if (!is_constant) ++tried;
  }
  return best;
}

void RegressionTree::grow(const std::vector<BinnedParameter>& parameters,
                          std::span<const double> target, std::span<uint32_t> rows, size_t min_leaf,
                          std::mt19937_64& random) {
  const auto at = nodes_.size();
  nodes_.emplace_back();
  double sum = 0;
  for (const auto row : rows) sum += target[row];
  nodes_[at].value = rows.empty() ? 0 : sum / static_cast<double>(rows.size());
  if (rows.size() < 2 * min_leaf || nodes_.size() > kMaxNodes) return;
  const auto split = best_split(parameters, target, rows, min_leaf, random);
  if (split.parameter < 0) return;
  const auto& parameter = parameters[static_cast<size_t>(split.parameter)];
  const auto middle = std::partition(rows.begin(), rows.end(), [&](uint32_t row) {
    const int bin = parameter.bin[row];
    return parameter.is_ordered ? bin <= split.bin : bin == split.bin;
  });
  const auto num_left = static_cast<size_t>(middle - rows.begin());
  nodes_[at].parameter = split.parameter;
  nodes_[at].bin = split.bin;
  nodes_[at].is_ordered = parameter.is_ordered;
  grow(parameters, target, rows.first(num_left), min_leaf, random);
  nodes_[at].right = nodes_.size();
  grow(parameters, target, rows.subspan(num_left), min_leaf, random);
}

}  // namespace lockstep::dashboard
