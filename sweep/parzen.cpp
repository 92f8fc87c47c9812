#include "sweep/parzen.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "sweep/normal.h"

namespace lockstep::sweep {
namespace {

// Observations that have the full weight: those before them fade linearly.
constexpr size_t kFullWeights = 25;

double normal_between(double from, double to) {
  // In the upper tail, differences of values near 1 would lose all digits.
  return from > 0 ? normal_below(-from) - normal_below(-to) : normal_below(to) - normal_below(from);
}

double log_sum(const std::vector<double>& logs) {
  const auto largest = std::ranges::max(logs);
  if (!std::isfinite(largest)) return largest;
  double sum = 0;
  for (const auto log : logs) sum += std::exp(log - largest);
  return largest + std::log(sum);
}

size_t draw_place(const std::vector<double>& shares, Random& random) {
  auto left = random.uniform();
  for (size_t i = 0; i + 1 < shares.size(); ++i) {
    left -= shares[i];
    if (left < 0) return i;
  }
  return shares.size() - 1;
}

double coordinate_of(const Parameter& parameter, const Json& value) {
  if (parameter.is_choice()) return static_cast<double>(parameter.place_of(value));
  return parameter.is_log() ? std::log(value.get<double>()) : value.get<double>();
}

// Half the distance of neighboring values of an integer.
double half_step(const Parameter& parameter) {
  return parameter.is_integer() ? static_cast<double>(parameter.step) / 2 : 0;
}

// The weights of `count` observations and the prior.
std::vector<double> weights_of(size_t count) {
  std::vector<double> weights(count + 1, 1);
  const auto fading = count > kFullWeights ? count - kFullWeights : 0;
  const auto first = 1 / static_cast<double>(std::max<size_t>(count, 1));
  for (size_t i = 0; i < fading; ++i)
    weights[i] = fading == 1 ? first
                             : first + (1 - first) * static_cast<double>(i) /
                                           static_cast<double>(fading - 1);
  const auto sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (auto& weight : weights) weight /= sum;
  return weights;
}

// The larger of the distances of each place to its neighbors; of a single one, to the ends of the
// range.
std::vector<double> gaps_of(const std::vector<double>& places, double low, double high) {
  if (places.size() == 1) return {std::max(places[0] - low, high - places[0])};
  std::vector<size_t> order(places.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](size_t i) { return places[i]; });
  std::vector<double> gaps(places.size(), 0);
  for (size_t i = 1; i < order.size(); ++i) {
    const auto gap = places[order[i]] - places[order[i - 1]];
    gaps[order[i]] = gap;
    gaps[order[i - 1]] = std::max(gaps[order[i - 1]], gap);
  }
  return gaps;
}

}  // namespace

ParzenDensity::ParzenDensity(std::vector<const Parameter*> parameters,
                             const std::vector<Point>& observations)
    : weights_(weights_of(observations.size())) {
  axes_.resize(parameters.size());  // make_axis() needs their number
  for (size_t i = 0; i < parameters.size(); ++i) axes_[i] = make_axis(*parameters[i], observations);
}

ParzenDensity::Axis ParzenDensity::make_axis(const Parameter& parameter,
                                             const std::vector<Point>& observations) const {
  Axis axis{.parameter = &parameter};
  const auto kernels = observations.size() + 1;
  const auto num_kernels = static_cast<double>(kernels);
  if (parameter.is_choice()) {
    for (const auto& point : observations) {
      auto& shares = axis.shares.emplace_back(parameter.choices.size(), 1 / num_kernels);
      shares[parameter.place_of(point.at(parameter.key))] += 1;
      const auto sum = 1 + static_cast<double>(shares.size()) / num_kernels;
      for (auto& share : shares) share /= sum;
    }
    axis.shares.emplace_back(parameter.choices.size(),
                             1 / static_cast<double>(parameter.choices.size()));
    return axis;
  }
  const auto edge = [&](double value) { return parameter.is_log() ? std::log(value) : value; };
  axis.low = edge(parameter.low - half_step(parameter));
  axis.high = edge(parameter.high + half_step(parameter));
  const auto range = axis.high - axis.low;
  for (const auto& point : observations)
    axis.mean.push_back(coordinate_of(parameter, point.at(parameter.key)));
  // The floor shrinks with the number of kernels.
  const auto floor = range / std::min(100.0, 1 + num_kernels);
  axis.deviation = gaps_of(axis.mean, axis.low, axis.high);
  for (auto& deviation : axis.deviation) deviation = std::clamp(deviation, floor, range);
  axis.mean.push_back((axis.low + axis.high) / 2);
  axis.deviation.push_back(range);
  return axis;
}

std::vector<double> ParzenDensity::draw(Random& random) const {
  const auto kernel = draw_place(weights_, random);
  std::vector<double> at;
  for (const auto& axis : axes_) {
    if (axis.parameter->is_choice()) {
      at.push_back(static_cast<double>(draw_place(axis.shares[kernel], random)));
      continue;
    }
    const auto mean = axis.mean[kernel], deviation = axis.deviation[kernel];
    const auto from = (axis.low - mean) / deviation, to = (axis.high - mean) / deviation;
    const auto share = normal_below(from) + random.uniform() * normal_between(from, to);
    auto value =
        std::clamp(mean + deviation * normal_quantile(share, from, to), axis.low, axis.high);
    if (axis.parameter->is_integer()) {
      const auto& parameter = *axis.parameter;
      const auto step = static_cast<double>(parameter.step);
      const auto plain = parameter.is_log() ? std::exp(value) : value;
      const auto rounded = parameter.low + step * std::round((plain - parameter.low) / step);
      const auto number = std::clamp(rounded, parameter.low, parameter.high);
      value = parameter.is_log() ? std::log(number) : number;
    }
    at.push_back(value);
  }
  return at;
}

double ParzenDensity::log_kernel(const Axis& axis, size_t kernel, double at) const {
  if (axis.parameter->is_choice()) return std::log(axis.shares[kernel][static_cast<size_t>(at)]);
  const auto mean = axis.mean[kernel], deviation = axis.deviation[kernel];
  const auto z = [&](double value) { return (value - mean) / deviation; };
  const auto all = std::log(normal_between(z(axis.low), z(axis.high)));
  if (!axis.parameter->is_integer())
    return -0.5 * z(at) * z(at) - std::log(deviation * std::sqrt(2 * std::numbers::pi)) - all;
  const auto half = half_step(*axis.parameter);
  const bool is_log = axis.parameter->is_log();
  const auto plain = is_log ? std::exp(at) : at;
  const auto edge = [&](double value) { return z(is_log ? std::log(value) : value); };
  return std::log(normal_between(edge(plain - half), edge(plain + half))) - all;
}

double ParzenDensity::log_density(const std::vector<double>& at) const {
  std::vector<double> logs;
  for (size_t kernel = 0; kernel < weights_.size(); ++kernel) {
    auto log = std::log(weights_[kernel]);
    for (size_t i = 0; i < axes_.size(); ++i) log += log_kernel(axes_[i], kernel, at[i]);
    logs.push_back(log);
  }
  return log_sum(logs);
}

void ParzenDensity::set(const std::vector<double>& at, Point& point) const {
  for (size_t i = 0; i < axes_.size(); ++i) {
    const auto& parameter = *axes_[i].parameter;
    const auto plain = parameter.is_log() ? std::exp(at[i]) : at[i];
    if (parameter.is_choice())
      point[parameter.key] = parameter.choices[static_cast<size_t>(at[i])];
    else if (parameter.is_integer())
      point[parameter.key] = static_cast<int64_t>(std::llround(plain));
    else
      point[parameter.key] = std::clamp(plain, parameter.low, parameter.high);
  }
}

}  // namespace lockstep::sweep
