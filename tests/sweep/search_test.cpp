#include "sweep/search.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>

#include "sweep/parzen.h"
#include "sweep/ranking.h"
#include "sweep/sobol.h"

using namespace lockstep;
using namespace lockstep::sweep;

namespace {

SweepFile file_of(const std::string& space, Method method) {
  SweepFile file;
  file.space = ConfigValue<Space>::read(parse_config(space, "sweep.yaml"), "space");
  file.search.name = method;
  file.objective.all = {{.metric = "loss"}};
  return file;
}

// Runs `count` trials of a function, and returns them.
template <class Function>
std::vector<Trial> optimize(const SweepFile& file, int64_t count, const Function& function) {
  std::vector<Trial> trials;
  for (int64_t number = 0; number < count; ++number) {
    const auto point = next_point(file, trials, number);
    if (!point) break;
    file.space.verify(*point);
    trials.push_back({.number = number,
                      .parameters = *point,
                      .state = TrialState::Finished,
                      .values = {function(*point)}});
  }
  return trials;
}

double best_value(const SweepFile& file, const std::vector<Trial>& trials) {
  return best_of(file.objective.all, trials).front().values.front();
}

const std::string kPlane = "x: {uniform: [-5, 5]}\ny: {uniform: [-5, 5]}\n";

double bowl(const Point& point) {
  return std::pow(point["x"].get<double>() - 1, 2) + std::pow(point["y"].get<double>() + 2, 2);
}

}  // namespace

TEST_CASE("Sobol points are those of PyTorch's SobolEngine") {
  const std::map<uint32_t, std::vector<double>> expected = {
      {0, {0, 0, 0, 0, 0, 0}},
      {1, {0.5, 0.5, 0.5, 0.5, 0.5, 0.5}},
      {2, {0.75, 0.25, 0.25, 0.25, 0.75, 0.25}},
      {5, {0.875, 0.875, 0.125, 0.875, 0.375, 0.625}},
      {100, {0.4140625, 0.2578125, 0.7734375, 0.0234375, 0.8359375, 0.4140625}},
      {1000, {0.2197265625, 0.0966796875, 0.5185546875, 0.0458984375, 0.9912109375, 0.1455078125}}};
  for (const auto& [index, values] : expected) {
    const auto point = sobol_point(index, kSobolDimensions, 0);
    size_t i = 0;
    for (const auto dimension : {0, 1, 2, 6, 18, 31}) CHECK(point[dimension] == values[i++]);
  }
}

TEST_CASE("shifted Sobol points still fill every half, quarter and eighth evenly") {
  for (int dimension = 0; dimension < kSobolDimensions; ++dimension) {
    std::map<int, int> counts;
    for (uint32_t i = 0; i < 64; ++i)
      ++counts[static_cast<int>(sobol_point(i, kSobolDimensions, 7)[dimension] * 8)];
    CHECK(counts.size() == 8);
    for (const auto& [cell, count] : counts) CHECK(count == 8);
  }
}

TEST_CASE("a grid has every combination once, without those of inactive parameters") {
  const auto file = file_of(
      "name: {choice: [sgd, adamw]}\nlr: {log_uniform: [0.01, 1], points: 3}\n"
      "momentum: {choice: [0, 0.9], when: {name: sgd}}\nn: {int: [1, 2]}\n",
      Method::Grid);
  const auto trials = optimize(file, 1000, [](const Point&) { return 0.0; });
  CHECK(trials.size() == (2 + 1) * 3 * 2);
  std::set<std::string> distinct;
  for (const auto& trial : trials) distinct.insert(trial.parameters.dump());
  CHECK(distinct.size() == trials.size());
  CHECK(trials.front().parameters["lr"].get<double>() == Approx(0.01));
  CHECK(trials.back().parameters["lr"].get<double>() == Approx(1));
}

TEST_CASE("a point is a function of the seed, the number and the trials before") {
  for (const auto method : {Method::Random, Method::Sobol, Method::Tpe}) {
    auto file = file_of(kPlane, method);
    const auto first = optimize(file, 30, bowl), second = optimize(file, 30, bowl);
    for (size_t i = 0; i < first.size(); ++i) CHECK(first[i].parameters == second[i].parameters);
    file.search.seed = 1;
    CHECK(optimize(file, 1, bowl)[0].parameters != first[0].parameters);
  }
}

TEST_CASE("a Parzen density is a density") {
  const auto space = file_of(
                         "x: {log_uniform: [0.01, 10]}\nn: {int: [1, 9], step: 2}\n"
                         "m: {log_int: [1, 30]}\nc: {choice: [a, b, c]}\n",
                         Method::Tpe)
                         .space;
  const std::vector<Point> points = {{{"x", 0.02}, {"n", 3}, {"m", 1}, {"c", "a"}},
                                     {{"x", 5.0}, {"n", 9}, {"m", 20}, {"c", "a"}},
                                     {{"x", 0.5}, {"n", 3}, {"m", 2}, {"c", "c"}}};
  const auto density = [&](const char* key) { return ParzenDensity({space.find(key)}, points); };
  const auto sum = [&](const char* key, const std::vector<double>& places, double width) {
    const auto one = density(key);
    double total = 0;
    for (const auto at : places) total += std::exp(one.log_density({at})) * width;
    return total;
  };
  std::vector<double> line;
  const auto low = std::log(0.01), width = (std::log(10) - low) / 10000;
  for (int i = 0; i < 10000; ++i) line.push_back(low + (i + 0.5) * width);
  CHECK(sum("x", line, width) == Approx(1).epsilon(1e-6));
  CHECK(sum("n", {1, 3, 5, 7, 9}, 1) == Approx(1).epsilon(1e-9));
  CHECK(sum("c", {0, 1, 2}, 1) == Approx(1).epsilon(1e-12));
  std::vector<double> logs;
  for (int m = 1; m <= 30; ++m) logs.push_back(std::log(m));
  CHECK(sum("m", logs, 1) == Approx(1).epsilon(1e-9));

  // Drawn as often as the density says.
  const auto integers = density("n");
  Random random(3, 5);
  std::map<double, int> counts;
  for (int i = 0; i < 20000; ++i) ++counts[integers.draw(random).front()];
  for (const auto value : {1.0, 3.0, 5.0, 7.0, 9.0})
    CHECK(counts[value] / 20000.0 == Approx(std::exp(integers.log_density({value}))).margin(0.015));
}

TEST_CASE("TPE is better than random search on a bowl") {
  int wins = 0;
  for (int64_t seed = 0; seed < 10; ++seed) {
    auto tpe = file_of(kPlane, Method::Tpe), random = file_of(kPlane, Method::Random);
    tpe.search.seed = random.search.seed = seed;
    wins +=
        best_value(tpe, optimize(tpe, 60, bowl)) < best_value(random, optimize(random, 60, bowl));
  }
  CHECK(wins >= 8);
}

TEST_CASE("TPE finds the good branch of a conditional space, and passes over NaN") {
  const auto file = file_of(
      "name: {choice: [a, b]}\nx: {uniform: [0, 1], when: {name: a}}\n"
      "y: {log_uniform: [0.001, 1], when: {name: b}}\n",
      Method::Tpe);
  const auto trials = optimize(file, 80, [](const Point& point) {
    if (point.contains("x")) return point["x"] > 0.5 ? std::nan("") : 2.0;
    return std::abs(std::log10(point["y"].get<double>()) + 2);
  });
  CHECK(best_value(file, trials) < 0.05);
  int late_b = 0;
  for (size_t i = 40; i < 80; ++i) late_b += trials[i].parameters["name"] == "b";
  CHECK(late_b > 30);
}

TEST_CASE("open trials have an effect: parallel trials have different points") {
  const auto file = file_of("c: {choice: [1, 2, 3, 4, 5, 6, 7, 8]}\n", Method::Tpe);
  auto trials = optimize(file, 12, [](const Point& point) { return point["c"].get<double>(); });
  std::set<std::string> points;
  for (int64_t number = 12; number < 24; ++number) {
    const auto point = next_point(file, trials, number);
    points.insert(point->dump());
    trials.push_back({.number = number, .parameters = *point});
  }
  CHECK(points.size() > 1);
}

TEST_CASE("several objectives are optimized towards their front") {
  auto file = file_of(kPlane, Method::Tpe);
  file.objective.all = {{.metric = "f"}, {.metric = "g", .direction = Direction::Maximize}};
  std::vector<Trial> trials;
  for (int64_t number = 0; number < 80; ++number) {
    const auto point = *next_point(file, trials, number);
    const double x = point["x"], y = point["y"];
    trials.push_back({.number = number,
                      .parameters = point,
                      .state = TrialState::Finished,
                      .values = {x * x + y * y, -((x - 2) * (x - 2) + y * y)}});
  }
  // On the front, y is 0 and x from 0 to 2.
  const auto front = best_of(file.objective.all, trials);
  CHECK(front.size() > 3);
  double distance = 0;
  for (const auto& trial : front) distance += std::abs(trial.parameters["y"].get<double>());
  CHECK(distance / static_cast<double>(front.size()) < 1);
}
