#include "trainer/metrics/slow_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep::trainer {
namespace {

constexpr double kMinShare = 0.05;  // of a step: less is not worth a message

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const auto half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

template <class Value>
double median_of_others(const std::vector<StepTimes>& times, size_t left_out, const Value& value) {
  std::vector<double> values;
  for (size_t i = 0; i < times.size(); ++i)
    if (i != left_out) values.push_back(value(times[i]));
  return median(std::move(values));
}

struct Part {
  const char* name;
  double StepTimes::*seconds;
};
constexpr std::array kOwnParts = {
    Part{"waiting for data", &StepTimes::data_wait}, Part{"the forward pass", &StepTimes::forward},
    Part{"the backward pass", &StepTimes::backward}, Part{"the optimizer", &StepTimes::optimizer}};

std::string describe(const std::vector<StepTimes>& times, size_t rank, double others,
                     std::chrono::duration<double> slow_for) {
  const auto excess = [&](const Part& part) {
    return times[rank].*part.seconds -
           median_of_others(times, rank, [&](const auto& each) { return each.*part.seconds; });
  };
  const auto& part = *std::ranges::max_element(kOwnParts, {}, excess);
  return fmt::format(
      "rank {} makes the others wait: for {:.0f} s its part of a step has taken {:.3g} s, {:.1f} "
      "times the median of the others ({:.3g} s); most of the difference is in {} "
      "(distributed.slow_rank)",
      rank, slow_for.count(), times[rank].own(), times[rank].own() / others, others, part.name);
}

}  // namespace

std::optional<std::string> SlowRankWatch::update(const std::vector<StepTimes>& times,
                                                 Clock::time_point now) {
  if (times.size() < 2) return std::nullopt;
  const auto own = [](const StepTimes& each) { return each.own(); };
  const auto slowest = std::ranges::max_element(times, {}, own);
  const auto number = static_cast<size_t>(slowest - times.begin());
  const auto others = median_of_others(times, number, own);
  const bool is_slow = slowest->own() > config_.factor * others &&
                       slowest->own() - others > kMinShare * slowest->whole;
  if (!is_slow || (since_ && number != slow_rank_)) {
    since_.reset();
    is_reported_ = false;
  }
  if (!is_slow) return std::nullopt;
  slow_rank_ = number;
  if (!since_) since_ = now;
  if (is_reported_ || now - *since_ < config_.after.value) return std::nullopt;
  is_reported_ = true;
  return describe(times, number, others, now - *since_);
}

}  // namespace lockstep::trainer
