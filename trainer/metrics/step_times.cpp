#include "trainer/metrics/step_times.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "distributed/collectives.h"

namespace lockstep::trainer {
namespace {

struct NamedPart {
  const char* name;
  double StepTimes::*seconds;
};
constexpr std::array kParts = {NamedPart{"step", &StepTimes::whole},
                               NamedPart{"data_wait", &StepTimes::data_wait},
                               NamedPart{"forward", &StepTimes::forward},
                               NamedPart{"backward", &StepTimes::backward},
                               NamedPart{"communication", &StepTimes::communication},
                               NamedPart{"optimizer", &StepTimes::optimizer}};

}  // namespace

std::vector<std::pair<std::string, double>> rank_step_times(const StepTimes& own) {
  std::vector<std::pair<std::string, double>> values = {{"rank/step_time_s", own.own()}};
  for (size_t part = 1; part < kParts.size(); ++part)
    values.emplace_back(std::string("rank/") + kParts[part].name + "_s", own.*kParts[part].seconds);
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
  progress_.set_step(step, total_steps);
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

std::vector<StepTimes> gather_step_times(World& world, const StepTimes& own) {
  if (!world.is_distributed()) return {own};
  auto local = at::empty({static_cast<int64_t>(kParts.size())}, at::kDouble);
  for (size_t part = 0; part < kParts.size(); ++part)
    local.mutable_data_ptr<double>()[part] = own.*kParts[part].seconds;
  const auto all = distributed::all_gather(world, local, "step times");
  std::vector<StepTimes> ranks(static_cast<size_t>(world.world_size()));
  const auto* value = all.const_data_ptr<double>();
  for (auto& times : ranks)
    for (const auto& part : kParts) times.*part.seconds = *value++;
  return ranks;
}

std::vector<std::pair<std::string, double>> step_time_metrics(const std::vector<StepTimes>& ranks) {
  std::vector<std::pair<std::string, double>> values;
  const auto num_ranks = ranks.size();
  for (const auto& part : kParts) {
    const auto name = std::string("time/") + part.name;
    std::vector<double> times;
    for (const auto& rank : ranks) times.push_back(rank.*part.seconds);
    if (num_ranks == 1) {
      values.emplace_back(name, times.front());
      continue;
    }
    std::ranges::sort(times);
    values.emplace_back(name + "/min", times.front());
    values.emplace_back(name + "/median", (times[(num_ranks - 1) / 2] + times[num_ranks / 2]) / 2);
    values.emplace_back(name + "/max", times.back());
  }
  if (num_ranks == 1) return values;
  const auto slowest = std::ranges::max_element(ranks, {}, &StepTimes::own) - ranks.begin();
  values.emplace_back("time/slowest_rank", static_cast<double>(slowest));
  return values;
}

}  // namespace lockstep::trainer
