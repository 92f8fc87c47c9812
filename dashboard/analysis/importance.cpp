#include "dashboard/analysis/importance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lockstep::dashboard {
namespace {

constexpr size_t kNumTrees = 40, kMaxRuns = 2000, kNumCopies = 4;
constexpr size_t kMaxPairs = 6;      // parameters whose interactions are estimated
constexpr size_t kEffectRuns = 128;  // runs over which an effect is averaged
constexpr size_t kMaxEffectPoints = 9;
constexpr double kMinImportance = 0.01, kMinExplained = 0.05;
// Of the variance, and of the importance of the weaker parameter: trees approximate sums with
// small interactions.
constexpr double kMinInteraction = 0.02, kMinInteractionShare = 0.15;

// Ranks from 0, with the mean for ties.
std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t i = 0, end = 0; i < order.size(); i = end) {
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (size_t k = i; k < end; ++k) ranks[order[k]] = static_cast<double>(i + end - 1) / 2;
  }
  return ranks;
}

double correlation_of(std::span<const double> a, std::span<const double> b) {
  const auto n = static_cast<double>(a.size());
  const auto mean_a = std::accumulate(a.begin(), a.end(), 0.0) / n;
  const auto mean_b = std::accumulate(b.begin(), b.end(), 0.0) / n;
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

std::optional<double> rank_correlation(const StudiedParameter& parameter,
                                       std::span<const double> target,
                                       std::span<const size_t> runs) {
  std::vector<double> values, results;
  for (const auto run : runs) {
    if (std::isnan(parameter.numbers[run])) continue;
    values.push_back(parameter.numbers[run]);
    results.push_back(target[run]);
  }
  if (values.size() < 3) return std::nullopt;
  return correlation_of(ranks_of(values), ranks_of(results));
}

template <class Value>
std::vector<Value> picked(const std::vector<Value>& values, std::span<const size_t> runs) {
  std::vector<Value> result;
  result.reserve(runs.size());
  for (const auto run : runs) result.push_back(values[run]);
  return result;
}

BinnedParameter binned(const StudiedParameter& parameter, std::span<const size_t> runs) {
  if (parameter.numbers.empty()) return bin_categories(picked(parameter.categories, runs));
  return bin_numbers(picked(parameter.numbers, runs));
}

// A run that a tree has not seen.
struct UnseenRun {
  uint32_t row = 0;
  double prediction = 0;
  uint64_t path = 0;  // bit p % 64: the prediction depends on parameter p
};

uint64_t path_bit(size_t parameter) { return uint64_t{1} << (parameter % 64); }

// The forest, and for each tree the runs that it has not seen.
class Forest {
 public:
  Forest(std::vector<BinnedParameter> parameters, std::vector<double> target)
      : parameters_(std::move(parameters)), target_(std::move(target)) {
    const auto n = target_.size();
    for (auto& tree : trees_) {
      std::vector<uint32_t> rows(n);
      std::vector<bool> seen(n);
      for (auto& row : rows) {
        row = static_cast<uint32_t>(random_() % n);
        seen[row] = true;
      }
      tree.fit(parameters_, target_, std::move(rows), std::max<size_t>(2, n / 200), random_);
      auto& unseen = unseen_.emplace_back();
      for (uint32_t row = 0; row < n; ++row)
        if (!seen[row]) unseen.push_back(predicted(tree, row));
    }
    const auto mean = std::accumulate(target_.begin(), target_.end(), 0.0) / double(n);
    for (const auto value : target_) variance_ += (value - mean) * (value - mean) / double(n);
    unshuffled_ = error_of({});
  }

  double explained() const { return 1 - out_of_bag_error() / variance_; }

  // The increase of the error of unseen runs when `shuffled` are shuffled, as a share of the
  // variance. Half of the increase of the squared error: the part of the variance that depends on
  // these parameters.
  double importance(std::span<const size_t> shuffled) {
    return (error_of(shuffled) - unshuffled_) / (2 * variance_);
  }

  // The mean prediction with the bin of `parameter` replaced.
  double mean_at(size_t parameter, int bin) const {
    const auto n = target_.size();
    const auto every = std::max<size_t>(1, n / kEffectRuns);
    double sum = 0;
    size_t count = 0;
    for (size_t row = 0; row < n; row += every, ++count)
      for (const auto& tree : trees_)
        sum += tree.predict(
            [&](size_t p) { return p == parameter ? bin : int{parameters_[p].bin[row]}; });
    return sum / static_cast<double>(count * trees_.size());
  }

  const BinnedParameter& parameter(size_t i) const { return parameters_[i]; }

 private:
  UnseenRun predicted(const RegressionTree& tree, uint32_t row) const {
    UnseenRun run{.row = row};
    run.prediction = tree.predict([&](size_t p) {
      run.path |= path_bit(p);
      return int{parameters_[p].bin[row]};
    });
    return run;
  }

  // The mean squared error of single trees on the runs that they have not seen.
  double error_of(std::span<const size_t> shuffled) {
    uint64_t path = 0;
    for (const auto p : shuffled) path |= path_bit(p);
    double sum = 0;
    size_t count = 0;
    for (size_t t = 0; t < trees_.size(); ++t) {
      const auto& unseen = unseen_[t];
      std::vector<uint32_t> other(unseen.size());
      std::ranges::transform(unseen, other.begin(), &UnseenRun::row);
      std::shuffle(other.begin(), other.end(), random_);
      for (size_t i = 0; i < unseen.size(); ++i) {
        const auto& run = unseen[i];
        auto prediction = run.prediction;
        if (run.path & path)  // most predictions do not depend on the shuffled parameters
          prediction = trees_[t].predict([&](size_t p) {
            const bool is_shuffled = std::ranges::find(shuffled, p) != shuffled.end();
            return int{parameters_[p].bin[is_shuffled ? other[i] : run.row]};
          });
        sum += (prediction - target_[run.row]) * (prediction - target_[run.row]);
      }
      count += unseen.size();
    }
    return count > 0 ? sum / static_cast<double>(count) : 0;
  }

  // The mean squared error of the mean of the trees that have not seen a run.
  double out_of_bag_error() const {
    std::vector<double> sum(target_.size());
    std::vector<size_t> count(target_.size());
    for (const auto& unseen : unseen_)
      for (const auto& run : unseen) {
        sum[run.row] += run.prediction;
        ++count[run.row];
      }
    double error = 0;
    size_t rows = 0;
    for (size_t row = 0; row < sum.size(); ++row) {
      if (count[row] == 0) continue;
      const auto off = sum[row] / static_cast<double>(count[row]) - target_[row];
      error += off * off;
      ++rows;
    }
    return rows > 0 ? error / static_cast<double>(rows) : variance_;
  }

  std::mt19937_64 random_{1};
  std::vector<BinnedParameter> parameters_;
  std::vector<double> target_;
  std::vector<RegressionTree> trees_{kNumTrees};
  std::vector<std::vector<UnseenRun>> unseen_;  // per tree
  double variance_ = 0, unshuffled_ = 0;
};

// Shuffled copies of parameters: what they seem to explain is noise.
void add_copies(std::vector<BinnedParameter>& parameters) {
  std::mt19937_64 random(2);
  const auto count = parameters.size();
  for (size_t i = 0; i < kNumCopies; ++i) {
    auto copy = parameters[i * count / kNumCopies];
    std::shuffle(copy.bin.begin(), copy.bin.end(), random);
    parameters.push_back(std::move(copy));
  }
}

// The values at which an effect is drawn, and a bin of each.
std::vector<std::pair<double, int>> effect_points(const StudiedParameter& parameter,
                                                  const BinnedParameter& bins,
                                                  std::span<const size_t> runs) {
  std::vector<std::pair<double, int>> points;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (bins.bin[i] == 0) continue;
    const auto value = parameter.numbers.empty()
                           ? static_cast<double>(parameter.categories[runs[i]])
                           : parameter.numbers[runs[i]];
    points.emplace_back(value, bins.bin[i]);
  }
  std::ranges::sort(points);
  points.erase(std::unique(points.begin(), points.end(),
                           [](const auto& a, const auto& b) { return a.second == b.second; }),
               points.end());
  if (points.size() <= kMaxEffectPoints) return points;
  std::vector<std::pair<double, int>> thinned;
  for (size_t i = 0; i < kMaxEffectPoints; ++i)
    thinned.push_back(points[i * (points.size() - 1) / (kMaxEffectPoints - 1)]);
  return thinned;
}

// Of mean ranks. None: the range of the means is small. Mixed: the mean goes back by more than a
// quarter of its range.
Effect effect_of(std::span<const double> mean, double num_ranks) {
  if (mean.size() < 2) return Effect::None;
  const auto [low, high] = std::ranges::minmax(mean);
  if (high - low < 0.1 * num_ranks) return Effect::None;
  double up = 0, down = 0;
  for (size_t i = 1; i < mean.size(); ++i)
    (mean[i] > mean[i - 1] ? up : down) += std::abs(mean[i] - mean[i - 1]);
  if (std::min(up, down) > 0.25 * (high - low)) return Effect::Mixed;
  return up > down ? Effect::Rises : Effect::Falls;
}

std::vector<Interaction> interactions_of(Forest& forest,
                                         const std::vector<ParameterImportance>& parameters) {
  std::vector<size_t> order;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].above_noise) order.push_back(i);
  std::ranges::stable_sort(order, std::greater(),
                           [&](size_t i) { return parameters[i].importance; });
  order.resize(std::min(order.size(), kMaxPairs));
  std::vector<Interaction> found;
  for (size_t a = 0; a < order.size(); ++a)
    for (size_t b = a + 1; b < order.size(); ++b) {
      const size_t pair[] = {order[a], order[b]};
      const auto strength = parameters[order[a]].importance + parameters[order[b]].importance -
                            forest.importance(pair);
      const auto weaker =
          std::min(parameters[order[a]].importance, parameters[order[b]].importance);
      if (strength > std::max(kMinInteraction, kMinInteractionShare * weaker))
        found.push_back({order[a], order[b], strength});
    }
  std::ranges::stable_sort(found, std::greater(), &Interaction::strength);
  return found;
}

// The value of the result at a mean rank.
double result_at(const std::vector<double>& sorted, double rank) {
  const auto at = std::clamp(rank, 0.0, static_cast<double>(sorted.size() - 1));
  const auto low = static_cast<size_t>(at);
  const auto high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - static_cast<double>(low));
}

}  // namespace

size_t runs_needed(size_t num_parameters) { return std::max<size_t>(16, 3 * num_parameters); }

ImportanceReport parameter_importance(const std::vector<StudiedParameter>& parameters,
                                      std::span<const double> target) {
  ImportanceReport report;
  std::vector<size_t> runs;
  for (size_t i = 0; i < target.size(); ++i)
    if (std::isfinite(target[i])) runs.push_back(i);
  report.num_runs = runs.size();
  report.needed = runs_needed(parameters.size());
  for (const auto& parameter : parameters) {
    auto& entry = report.parameters.emplace_back();
    for (const auto run : runs)
      entry.num_runs += parameter.numbers.empty() ? parameter.categories[run] >= 0
                                                  : !std::isnan(parameter.numbers[run]);
    if (!parameter.numbers.empty()) entry.correlation = rank_correlation(parameter, target, runs);
  }
  if (runs.size() < report.needed || parameters.empty()) return report;
  if (runs.size() > kMaxRuns) {
    std::vector<size_t> thinned;
    for (size_t i = 0; i < kMaxRuns; ++i) thinned.push_back(runs[i * runs.size() / kMaxRuns]);
    runs = std::move(thinned);
  }
  std::vector<double> results;
  for (const auto run : runs) results.push_back(target[run]);
  auto sorted = results;
  std::ranges::sort(sorted);
  if (sorted.front() == sorted.back()) return report;  // nothing to explain
  report.num_used = runs.size();
  std::vector<BinnedParameter> bins;
  for (const auto& parameter : parameters) bins.push_back(binned(parameter, runs));
  add_copies(bins);
  Forest forest(std::move(bins), ranks_of(results));
  report.explained = std::max(0.0, forest.explained());
  double noise = 0;
  for (size_t i = 0; i < kNumCopies; ++i) {
    const size_t copy[] = {parameters.size() + i};
    noise = std::max(noise, forest.importance(copy));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    auto& entry = report.parameters[i];
    const size_t only[] = {i};
    entry.importance = std::max(0.0, forest.importance(only));
    entry.above_noise =
        report.explained >= kMinExplained && entry.importance > std::max(2 * noise, kMinImportance);
    if (!entry.above_noise) continue;
    std::vector<double> mean_ranks;
    for (const auto& [value, bin] : effect_points(parameters[i], forest.parameter(i), runs)) {
      entry.at.push_back(value);
      mean_ranks.push_back(forest.mean_at(i, bin));
      entry.mean.push_back(result_at(sorted, mean_ranks.back()));
    }
    entry.effect = effect_of(mean_ranks, static_cast<double>(runs.size()));
    if (parameters[i].numbers.empty() && entry.effect != Effect::None) entry.effect = Effect::Mixed;
  }
  report.interactions = interactions_of(forest, report.parameters);
  return report;
}

}  // namespace lockstep::dashboard
