#include "trainer/loop/step_times.h"

#include <algorithm>

namespace lockstep::trainer {
namespace {

constexpr std::array kParts = {"step",     "data_wait",     "forward",
                               "backward", "communication", "optimizer"};
double median_of_sorted(const std::vector<double>& values) {
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

}  // namespace

std::vector<double> as_row(const StepTimes& times) {
  return {times.whole,         times.data_wait, times.forward, times.backward,
          times.communication, times.optimizer, times.own()};
}

std::vector<std::pair<std::string, double>> rank_step_times(const StepTimes& own) {
  std::vector<std::pair<std::string, double>> values = {{"rank/step_time_s", own.own()}};
  const auto row = as_row(own);
  for (size_t part = 1; part < kParts.size(); ++part)
    values.emplace_back(std::string("rank/") + kParts[part] + "_s", row[part]);
  return values;
}

void StepClock::enter(Phase phase) {
  const auto now = std::chrono::steady_clock::now();
  spent_[static_cast<size_t>(phase_)] += now - since_;
  since_ = now;
  phase_ = phase;
  progress_.enter(phase);
}

void StepClock::end_step(int64_t step, int64_t total_steps) {
  enter(Phase::Logging);
  progress_.end_step(step, total_steps);
  ++steps_;
}

void StepClock::continue_from(const StepClock& other) {
  spent_ = other.spent_;
  communication_ = other.communication_;
  steps_ = other.steps_;
}

// A rank that joined may have counted no step.
StepTimes StepClock::take() {
  steps_ = std::max<int64_t>(steps_, 1);
  const auto mean = [&](Phase phase) {
    return spent_[static_cast<size_t>(phase)].count() / static_cast<double>(steps_);
  };
  StepTimes times{.data_wait = mean(Phase::DataWait),
                  .forward = mean(Phase::Forward),
                  .backward = mean(Phase::Backward),
                  .communication = communication_.count() / static_cast<double>(steps_),
                  .optimizer = mean(Phase::Optimizer)};
  times.whole = times.own() + mean(Phase::Voting);
  times.backward = std::max(0.0, times.backward - times.communication);
  spent_ = {};
  communication_ = {};
  steps_ = 0;
  return times;
}

StepTimesOfRanks compare_step_times(const std::vector<std::vector<double>>& rows, int64_t step) {
  StepTimesOfRanks compared;
  auto& values = compared.metrics;
  if (rows.size() == 1) {
    for (size_t part = 0; part < kParts.size(); ++part)
      values.emplace_back(std::string("time/") + kParts[part], rows.front()[part]);
    return compared;
  }
  const auto column = [&](size_t part) {
    std::vector<double> times;
    for (const auto& row : rows) times.push_back(row[part]);
    return times;
  };
  for (size_t part = 0; part < kParts.size(); ++part) {
    auto times = column(part);
    std::sort(times.begin(), times.end());
    const auto name = std::string("time/") + kParts[part];
    values.emplace_back(name + "/min", times.front());
    values.emplace_back(name + "/median", median_of_sorted(times));
    values.emplace_back(name + "/max", times.back());
  }
  auto own_times = column(kParts.size());
  const auto slowest = std::max_element(own_times.begin(), own_times.end());
  tracking::RankTimes ranks{
      .step = step, .slowest = static_cast<int>(slowest - own_times.begin()), .seconds = *slowest};
  own_times.erase(slowest);
  std::sort(own_times.begin(), own_times.end());
  ranks.others = median_of_sorted(own_times);
  values.emplace_back("time/slowest_rank", static_cast<double>(ranks.slowest));
  values.emplace_back("time/slowest_rank_s", ranks.seconds);
  values.emplace_back("time/other_ranks_s", ranks.others);
  compared.ranks = ranks;
  return compared;
}

}  // namespace lockstep::trainer
