#include "sweep/pruning.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "sweep/ranking.h"

using namespace lockstep;
using namespace lockstep::sweep;
using Catch::Contains;

namespace {

std::vector<Evaluation> values_of(const std::vector<double>& values) {
  std::vector<Evaluation> all;
  for (size_t i = 0; i < values.size(); ++i)
    all.push_back({static_cast<int64_t>(i + 1) * 10, values[i]});
  return all;
}

Trial trial_with(const std::vector<double>& values, TrialState state = TrialState::Finished) {
  return {.state = state, .values = {values.back()}, .evaluations = values_of(values)};
}

const Objective kLoss = {.metric = "eval/loss"};
const Objective kAccuracy = {.metric = "eval/accuracy", .direction = Direction::Maximize};

}  // namespace

TEST_CASE("asha keeps the best of each rung") {
  const PruningConfig asha = {.name = Pruner::Asha, .first = 1, .factor = 2};
  const std::vector<Trial> others = {trial_with({1, 0.5}), trial_with({2}, TrialState::Pruned),
                                     trial_with({3}, TrialState::Pruned)};
  CHECK(why_pruned(asha, kLoss, values_of({0.9}), others).empty());
  CHECK(why_pruned(asha, kLoss, values_of({2}), others).empty());  // 2 of 4 continue
  CHECK_THAT(why_pruned(asha, kLoss, values_of({2.5}), others),
             Contains("eval/loss 2.5 at evaluation 1 is not among the best 2 of 4"));
  CHECK_THAT(why_pruned(asha, kLoss, values_of({0.9, 0.6}), others), Contains("best 1 of 2"));
  CHECK(why_pruned(asha, kLoss, values_of({0.9, 0.4, 9}), others).empty());  // 3 is not a rung
  CHECK(why_pruned(asha, kLoss, values_of({5}), {}).empty());                // the first trial
  CHECK(why_pruned(asha, kAccuracy, values_of({2.5}), others).empty());
  CHECK_FALSE(why_pruned(asha, kAccuracy, values_of({1.5}), others).empty());
}

TEST_CASE("the median of finished trials stops worse ones") {
  const PruningConfig median = {.name = Pruner::Median, .first = 2, .startup = 3};
  std::vector<Trial> others = {trial_with({9, 1}), trial_with({9, 2}),
                               trial_with({9, 0.1}, TrialState::Pruned)};
  CHECK(why_pruned(median, kLoss, values_of({9, 8}), others).empty());  // two have finished
  others.push_back(trial_with({9, 3}));
  CHECK_THAT(why_pruned(median, kLoss, values_of({9, 8}), others),
             Contains("worse than the median 2 of 3"));
  CHECK(why_pruned(median, kLoss, values_of({9}), others).empty());        // before `first`
  CHECK(why_pruned(median, kLoss, values_of({1.5, 8}), others).empty());   // its best counts
  CHECK(why_pruned(median, kLoss, values_of({9, 8, 8}), others).empty());  // nothing to compare
  CHECK_THAT(why_pruned(median, kAccuracy, values_of({1, 1}), others), Contains("median 2"));
}

TEST_CASE("a value that is not a number stops a trial, unless there is no pruning") {
  for (const auto name : {Pruner::Asha, Pruner::Median})
    CHECK_THAT(why_pruned({.name = name}, kLoss, values_of({std::nan("")}), {}),
               Contains("is not a number at evaluation 1"));
  CHECK(why_pruned({}, kLoss, values_of({std::nan("")}), {}).empty());
}

TEST_CASE("trials are ranked: finished ones by value, NaN last, then pruned ones by length") {
  const std::vector<Trial> trials = {trial_with({5}),
                                     trial_with({std::nan("")}),
                                     trial_with({4}, TrialState::Pruned),
                                     trial_with({1, 1}),
                                     trial_with({3, 9}, TrialState::Pruned),
                                     {.state = TrialState::Failed},
                                     {.state = TrialState::Open}};
  CHECK(ranked({kLoss}, trials) == std::vector<size_t>{3, 0, 1, 4, 2});
  CHECK(best_of({kLoss}, trials).front().values.front() == 1);
  CHECK(best_of({kAccuracy}, trials).front().values.front() == 5);
  CHECK(best_of({kLoss}, {trials[1], trials[5]}).empty());
}

TEST_CASE("with several objectives, the best are those that none dominates") {
  std::vector<Trial> trials;
  const std::vector<std::vector<double>> all = {{1, 1}, {2, 2}, {0, 0.5}, {3, 1}};
  for (const auto& values : all)
    trials.push_back({.number = static_cast<int64_t>(trials.size()),
                      .state = TrialState::Finished,
                      .values = values});
  std::vector<int64_t> numbers;
  for (const auto& trial : best_of({kLoss, kAccuracy}, trials)) numbers.push_back(trial.number);
  CHECK(numbers == std::vector<int64_t>{0, 1, 2});
  CHECK(ranked({kLoss, kAccuracy}, trials).back() == 3);
}
