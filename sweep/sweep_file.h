// The sweep file: which run file, which space, how to search, and until when.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/config/period.h"
#include "lockstep/config_fields.h"
#include "sweep/space.h"

namespace lockstep::sweep {

enum class Direction { Minimize, Maximize };
constexpr auto choices(Direction) { return std::array{"minimize", "maximize"}; }

// Which value of the metric counts.
enum class Taken { Last, Best };
constexpr auto choices(Taken) { return std::array{"last", "best"}; }

struct Objective {
  std::string metric;
  Direction direction = Direction::Minimize;
  Taken value = Taken::Last;

  // Of a value, so that less is always better; NaN is worst.
  double loss(double value) const;
};

template <class V>
void fields(V& v, Objective& c) {
  v("metric", c.metric, "the metric, as the run logs it, such as eval/loss", required());
  v("direction", c.direction, "minimize or maximize");
  v("value", c.value, "which value of a run counts: its last, or its best");
}

// One map, or a list of maps.
struct Objectives {
  std::vector<Objective> all;
};

enum class Method { Tpe, Gp, Random, Sobol, Grid };
constexpr auto choices(Method) { return std::array{"tpe", "gp", "random", "sobol", "grid"}; }

struct SearchConfig {
  Method name = Method::Tpe;
  int64_t seed = 0;
  int64_t startup = 10;
  int64_t candidates = 24;
};

template <class V>
void fields(V& v, SearchConfig& c) {
  v("name", c.name, "tpe, gp (Gaussian process), random, sobol or grid");
  v("seed", c.seed, "seed of the points", at_least(0));
  v("startup", c.startup, "trials with random points before the first of tpe or gp", at_least(1));
  v("candidates", c.candidates, "points that tpe compares for each trial; gp: a 20th of them",
    at_least(1), at_most(10000));
}

enum class Pruner { None, Median, Asha };
constexpr auto choices(Pruner) { return std::array{"none", "median", "asha"}; }

struct PruningConfig {
  Pruner name = Pruner::None;
  int64_t first = 1;
  int64_t factor = 3;
  int64_t startup = 5;
};

template <class V>
void fields(V& v, PruningConfig& c) {
  v("name", c.name, "none, median or asha (successive halving)");
  v("first", c.first, "the first evaluation at which a trial may be stopped", at_least(1));
  v("factor", c.factor,
    "asha: rungs are at the evaluations first, first * factor, first * factor^2, ...; at each, the "
    "best 1 / factor of the trials continue",
    at_least(2), at_most(100));
  v("startup", c.startup, "median: finished trials before the first is stopped", at_least(1));
}

struct Budget {
  std::optional<int64_t> trials;
  std::optional<Duration> time;
  std::optional<double> target;
  int64_t failures = 5;
};

template <class V>
void fields(V& v, Budget& c) {
  v("trials", c.trials, "number of trials", at_least(1), at_most(1'000'000));
  v("time", c.time, "no trial is started after this time, counted from the start of the command");
  v("target", c.target, "no trial is started once the first objective is this good");
  v("failures", c.failures, "failed trials in a row that end the sweep", at_least(1));
}

struct SweepFile {
  std::string name;  // default: the name of the file
  std::string run;
  std::vector<std::string> overrides;
  Space space;
  SearchConfig search;
  Objectives objective;
  PruningConfig pruning;
  Budget budget;
  int64_t seeds = 1;

  const Objective& first() const { return objective.all.front(); }
};

// Throws Config. `run` is a path from the working directory in the result.
SweepFile read_sweep_file(const std::filesystem::path& path);

// As read_sweep_file() does, from JSON that ConfigDumper made.
SweepFile sweep_file_from_json(const Json& json, const std::string& name);

}  // namespace lockstep::sweep

namespace lockstep {

template <>
struct ConfigValue<sweep::Objectives> {
  static sweep::Objectives read(const ConfigNode& node, const std::string& path);
  static Json dump(const sweep::Objectives& objectives);
  static Json schema() { return {{"type", Json::array({"object", "array"})}}; }
};

namespace sweep {

template <class V>
void fields(V& v, SweepFile& c) {
  v("name", c.name, "name of the sweep, and group of its runs (default: the name of the file)");
  v("run", c.run, "the run file, relative to this file", required());
  v("overrides", c.overrides, "settings of all trials, as on the command line: [train.epochs=2]");
  v("space", c.space, "the parameters", required());
  v("search", c.search, "how points are chosen");
  v("objective", c.objective, "what is optimized: one objective, or a list", required());
  v("pruning", c.pruning, "when a trial is stopped early");
  v("budget", c.budget, "when the sweep ends");
  v("seeds", c.seeds, "runs of each point, with run.seed, run.seed + 1, ...; their mean counts",
    at_least(1), at_most(1000));
}

}  // namespace sweep
}  // namespace lockstep
