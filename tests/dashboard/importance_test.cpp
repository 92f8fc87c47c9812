#include "dashboard/analysis/importance.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

using namespace lockstep::dashboard;

namespace {

struct Study {
  std::vector<StudiedParameter> parameters;
  std::vector<double> target;
};

// 20 parameters, uniform in [0, 1). `result`: of the parameters of one run.
Study study_of(size_t num_runs, const auto& result, double noise = 0.1) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> uniform;
  std::normal_distribution<double> normal;
  Study study{.parameters = std::vector<StudiedParameter>(20)};
  for (size_t run = 0; run < num_runs; ++run) {
    std::vector<double> x;
    for (auto& parameter : study.parameters)
      parameter.numbers.push_back(x.emplace_back(uniform(random)));
    study.target.push_back(result(x) + noise * normal(random));
  }
  return study;
}

std::vector<size_t> by_importance(const ImportanceReport& report) {
  std::vector<size_t> order(report.parameters.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::greater(),
                           [&](size_t i) { return report.parameters[i].importance; });
  return order;
}

}  // namespace

TEST_CASE("two of twenty parameters with an interaction are found") {
  const auto study = study_of(300, [](const auto& x) { return x[3] + 2 * x[3] * x[11]; });
  const auto report = parameter_importance(study.parameters, study.target);
  const auto order = by_importance(report);
  CHECK(report.num_used == 300);
  CHECK(order[0] == 3);
  CHECK(order[1] == 11);
  CHECK(report.explained > 0.7);
  CHECK(report.parameters[3].effect == Effect::Rises);
  CHECK(report.parameters[11].effect == Effect::Rises);
  CHECK(*report.parameters[3].correlation > 0.6);
  for (size_t i = 0; i < 20; ++i) CHECK(report.parameters[i].above_noise == (i == 3 || i == 11));
  for (size_t i = 2; i < 20; ++i)
    CHECK(report.parameters[order[i]].importance < 0.2 * report.parameters[11].importance);
}

TEST_CASE("a pure interaction, which no correlation shows, is found and named") {
  const auto study = study_of(1000, [](const auto& x) { return (x[5] - 0.5) * (x[14] - 0.5) * 4; });
  const auto report = parameter_importance(study.parameters, study.target);
  const auto order = by_importance(report);
  CHECK(std::min(order[0], order[1]) == 5);
  CHECK(std::max(order[0], order[1]) == 14);
  CHECK(std::abs(*report.parameters[5].correlation) < 0.1);
  REQUIRE(report.interactions.size() == 1);
  CHECK(std::min(report.interactions[0].first, report.interactions[0].second) == 5);
  CHECK(std::max(report.interactions[0].first, report.interactions[0].second) == 14);
}

TEST_CASE("additive parameters have no interaction, and the effect has its direction") {
  const auto study =
      study_of(600, [](const auto& x) { return -2 * x[0] + 4 * (x[1] - 0.5) * (x[1] - 0.5) * 2; });
  const auto report = parameter_importance(study.parameters, study.target);
  CHECK(report.parameters[0].effect == Effect::Falls);
  CHECK(*report.parameters[0].correlation < -0.5);
  CHECK(report.parameters[1].effect == Effect::Mixed);
  CHECK(report.parameters[1].mean.front() > report.parameters[1].mean[4]);
  CHECK(report.interactions.empty());
}

TEST_CASE("noise is not important") {
  const auto study = study_of(400, [](const auto&) { return 0.0; });
  const auto report = parameter_importance(study.parameters, study.target);
  CHECK(report.num_used == 400);
  CHECK(report.explained < 0.05);
  CHECK(std::ranges::none_of(report.parameters, &ParameterImportance::above_noise));
  CHECK(report.interactions.empty());
}

TEST_CASE("with too few runs there is no importance, but there are correlations") {
  const auto few = study_of(59, [](const auto& x) { return x[0]; });
  const auto report = parameter_importance(few.parameters, few.target);
  CHECK(report.num_runs == 59);
  CHECK(report.needed == 60);
  CHECK(report.num_used == 0);
  CHECK(report.parameters[0].importance == 0);
  CHECK(*report.parameters[0].correlation > 0.8);
  CHECK(parameter_importance({}, {}).num_used == 0);
}

TEST_CASE("runs without a result are left out, and missing values and categories are parameters") {
  auto study = study_of(200, [](const auto&) { return 0.0; });
  study.parameters.resize(2);
  auto& conditional = study.parameters[0].numbers;
  study.parameters[1] = {.numbers = {}, .categories = std::vector<int>(200)};
  for (size_t i = 0; i < 200; ++i) {
    const int category = static_cast<int>(i % 3);
    study.parameters[1].categories[i] = category;
    if (i % 2 == 0) conditional[i] = std::nan("");
    study.target[i] += (i % 2 == 0 ? 3.0 : 0.0) + (category == 1 ? 2.0 : 0.0);
  }
  study.target[0] = std::nan("");
  study.target[1] = INFINITY;
  const auto report = parameter_importance(study.parameters, study.target);
  CHECK(report.num_runs == 198);
  CHECK(report.parameters[0].num_runs == 99);
  CHECK(report.parameters[0].above_noise);
  REQUIRE(report.parameters[1].above_noise);
  CHECK(!report.parameters[1].correlation);
  REQUIRE(report.parameters[1].mean.size() == 3);
  CHECK(report.parameters[1].mean[1] > report.parameters[1].mean[0] + 0.5);
  const std::vector<double> constant(200, 1.0);
  CHECK(parameter_importance(study.parameters, constant).num_used == 0);
}
