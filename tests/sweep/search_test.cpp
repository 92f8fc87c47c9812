#include "sweep/search.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>

#include "sweep/gaussian_process.h"
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
  for (const auto method : {Method::Random, Method::Sobol, Method::Tpe, Method::Gp}) {
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

TEST_CASE("TPE and Gaussian processes are better than random search on a bowl") {
  const auto method = GENERATE(Method::Tpe, Method::Gp);
  int wins = 0;
  for (int64_t seed = 0; seed < 10; ++seed) {
    auto search = file_of(kPlane, method), random = file_of(kPlane, Method::Random);
    search.search.seed = random.search.seed = seed;
    wins += best_value(search, optimize(search, 60, bowl)) <
            best_value(random, optimize(random, 60, bowl));
  }
  CHECK(wins >= (method == Method::Gp ? 10 : 8));
}

TEST_CASE("a Gaussian process finds the bottom of a bowl to two digits in 40 trials") {
  const auto file = file_of(kPlane, Method::Gp);
  CHECK(best_value(file, optimize(file, 40, bowl)) < 1e-3);
}

TEST_CASE("the good branch of a conditional space is found in spite of NaN") {
  const auto method = GENERATE(Method::Tpe, Method::Gp);
  const auto file = file_of(
      "name: {choice: [a, b]}\nx: {uniform: [0, 1], when: {name: a}}\n"
      "y: {log_uniform: [0.001, 1], when: {name: b}}\n",
      method);
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
  const auto method = GENERATE(Method::Tpe, Method::Gp);
  const auto file = file_of("c: {choice: [1, 2, 3, 4, 5, 6, 7, 8]}\n", method);
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
  auto file = file_of(kPlane, GENERATE(Method::Tpe, Method::Gp));
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

TEST_CASE("a Gaussian process predicts like scikit-learn's, and its gradient is the derivative") {
  // GaussianProcessRegressor(Matern([0.5, 0.8], nu=2.5), alpha=0.05 + 1e-8, optimizer=None), 1.9.1.
  const std::vector<std::vector<double>> points = {
      {0.1, 0.9}, {0.4, 0.2}, {0.7, 0.6}, {0.95, 0.05}, {0.3, 0.5}};
  const std::vector<double> values = {0.5, -1.2, 0.3, 1.1, -0.7};
  const std::vector<Distance> distances(2, Distance::Number);
  const KernelSettings settings{{std::log(0.5), std::log(0.8)}, std::log(0.05)};
  const auto process_of = [&](const KernelSettings& each) {
    return GaussianProcess(distances, points, values, each);
  };
  const auto process = process_of(settings);
  CHECK(process.log_likelihood() == Approx(-6.458725389476608).epsilon(1e-12));
  const auto check = [&](const std::vector<double>& at, double mean, double deviation) {
    CHECK(process.at(at).mean == Approx(mean).epsilon(1e-11));
    CHECK(process.at(at).deviation == Approx(deviation).epsilon(1e-11));
  };
  check({0.2, 0.4}, -0.7725991496372349, 0.30750166943542384);
  check({0.7, 0.6}, 0.2691534128987405, 0.21138349858583105);
  check({1, 1}, 0.6215410541200275, 0.7411793653510709);

  const auto slope = [&](auto entry) {
    auto above = settings, below = settings;
    entry(above) += 1e-5;
    entry(below) -= 1e-5;
    return (process_of(above).log_likelihood() - process_of(below).log_likelihood()) / 2e-5;
  };
  const auto gradient = process.log_likelihood_gradient();
  const auto length = [](size_t i) {
    return [i](KernelSettings& each) -> double& { return each.log_lengths[i]; };
  };
  CHECK(gradient.log_lengths[0] == Approx(slope(length(0))).epsilon(1e-6));
  CHECK(gradient.log_lengths[1] == Approx(slope(length(1))).epsilon(1e-6));
  CHECK(gradient.log_noise == Approx(slope([](KernelSettings& each) -> double& {
                                return each.log_noise;
                              })).epsilon(1e-6));

  // The most probable settings are a maximum: those given are less probable.
  CHECK(GaussianProcess::fit(distances, points, values).log_likelihood() > -8);
}

TEST_CASE("a Gaussian process learns from 2,000 trials of which most are pruned") {
  auto file = file_of("x: {uniform: [-5, 5]}\nn: {log_int: [1, 64]}\n", Method::Gp);
  std::vector<Trial> trials;
  for (int64_t number = 0; number < 2000; ++number) {
    Trial trial{.number = number, .state = number % 4 ? TrialState::Pruned : TrialState::Finished};
    trial.parameters = file.space.at({static_cast<double>(number % 97) / 97, 0.5});
    trial.values = {std::abs(trial.parameters["x"].get<double>() - 1)};
    trials.push_back(trial);
  }
  const auto point = *next_point(file, trials, 2000);
  file.space.verify(point);
  CHECK(std::abs(point["x"].get<double>() - 1) < 0.5);
}
