#include "sweep/search.h"

#include <fmt/format.h>

#include <algorithm>

#include "sweep/gp.h"
#include "sweep/random.h"
#include "sweep/sobol.h"
#include "sweep/tpe.h"

namespace lockstep::sweep {
namespace {

constexpr size_t kMaxGrid = 1'000'000;

Point random_point(const Space& space, uint64_t seed, int64_t number) {
  Random random(seed, static_cast<uint64_t>(number));
  std::vector<double> units(space.parameters.size());
  for (auto& unit : units) unit = random.uniform();
  return space.at(units);
}

// The values of a parameter in a grid.
std::vector<Json> values_of(const Parameter& parameter) {
  if (parameter.is_choice()) return parameter.choices;
  const auto count = parameter.points > 0 ? parameter.points : parameter.count();
  std::vector<Json> values;
  for (int64_t i = 0; i < count; ++i) {
    // A continuous range includes both ends.
    const bool is_range = !parameter.is_integer() && count > 1;
    const auto unit = is_range ? static_cast<double>(i) / static_cast<double>(count - 1)
                               : (static_cast<double>(i) + 0.5) / static_cast<double>(count);
    auto value = parameter.at(unit);
    if (values.empty() || values.back() != value) values.push_back(std::move(value));
  }
  return values;
}

void add_points(const Space& space, size_t place, const Point& point, std::vector<Point>& all) {
  if (place == space.parameters.size()) {
    if (all.size() == kMaxGrid)
      throw config_error(fmt::format("space: a grid of more than {} points", kMaxGrid));
    all.push_back(point);
    return;
  }
  const auto& parameter = space.parameters[place];
  if (!space.is_active(parameter, point)) return add_points(space, place + 1, point, all);
  for (const auto& value : values_of(parameter)) {
    auto next = point;
    next[parameter.key] = value;
    add_points(space, place + 1, next, all);
  }
}

}  // namespace

std::vector<Point> grid_of(const Space& space) {
  std::vector<Point> all;
  add_points(space, 0, Json::object(), all);
  return all;
}

std::optional<Point> next_point(const SweepFile& file, const std::vector<Trial>& trials,
                                int64_t number) {
  const auto seed = static_cast<uint64_t>(file.search.seed);
  // The search's own trials so far: others may have been added by hand.
  const auto place = static_cast<size_t>(std::ranges::count_if(trials, [](const Trial& trial) {
    return trial.by == TrialSource::Search || trial.by == TrialSource::Ask;
  }));
  switch (file.search.name) {
    case Method::Grid: {
      const auto grid = grid_of(file.space);
      return place < grid.size() ? std::optional(grid[place]) : std::nullopt;
    }
    case Method::Sobol: {
      const auto dimensions = static_cast<int>(file.space.parameters.size());
      if (dimensions > kSobolDimensions)
        throw config_error(
            fmt::format("search.name: sobol has at most {} parameters, the space has {}",
                        kSobolDimensions, dimensions));
      return file.space.at(sobol_point(static_cast<uint32_t>(place), dimensions, seed + 1));
    }
    case Method::Tpe:
    case Method::Gp: {
      if (std::ranges::count_if(trials, &Trial::counts) < file.search.startup) break;
      return file.search.name == Method::Tpe ? tpe_point(file, trials, number)
                                             : gp_point(file, trials, number);
    }
    case Method::Random: break;
  }
  return random_point(file.space, seed, number);
}

}  // namespace lockstep::sweep
