#include "sweep/sweep_file.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <set>

#include "core/run_id.h"

namespace lockstep::sweep {
namespace {

// Pairs of parameters that a run file cannot have at the same time, and settings without effect.
void verify_sweep(const SweepFile& file, const std::string& name) {
  const auto refuse = [&](const std::string& what) {
    return config_error(fmt::format("{}: {}", name, what));
  };
  if (!is_run_id(file.name))
    throw refuse(fmt::format("name '{}': expected letters, digits, '_', '.' and '-'", file.name));
  const bool is_grid = file.search.name == Method::Grid;
  if (!is_grid && !file.budget.trials && !file.budget.time && !file.budget.target)
    throw refuse("budget: expected at least one of trials, time, target");
  if (file.pruning.name != Pruner::None && file.objective.all.size() > 1)
    throw refuse("pruning: needs a single objective");
  for (const auto& parameter : file.space.parameters) {
    const auto where = fmt::format("{}: space.{}", parameter.origin, parameter.key);
    const bool is_listed = parameter.is_choice() || parameter.kind == Parameter::Kind::Int;
    if (is_grid && !is_listed && parameter.points == 0)
      throw config_error(fmt::format("{}: a grid needs `points: N` for a range", where));
    if (parameter.points > 0 && (!is_grid || is_listed))
      throw config_error(
          fmt::format("{}.points: only has an effect for a range, with search.name: grid", where));
    if (parameter.key == "run.dir" || parameter.key == "run.name" ||
        parameter.key == "tracking.group" || (parameter.key == "run.seed" && file.seeds > 1))
      throw config_error(fmt::format("{}: the sweep sets this key", where));
  }
}

}  // namespace

double Objective::loss(double value) const {
  if (std::isnan(value)) return std::numeric_limits<double>::infinity();
  return direction == Direction::Minimize ? value : -value;
}

SweepFile read_sweep_file(const std::filesystem::path& path) {
  SweepFile file;
  const auto root = read_config_file(path);
  for (const char* section : {"model", "data", "train"})
    if (root.find(section))
      throw config_error(
          fmt::format("{0}: is a run file, not a sweep file, which has `run: {1}` and the keys to "
                      "search in `space`",
                      path.string(), path.filename().string()));
  read_fields(root, "", file);
  if (file.name.empty()) file.name = path.stem().string();
  file.run = (path.parent_path() / file.run).string();
  verify_sweep(file, path.string());
  return file;
}

SweepFile sweep_file_from_json(const Json& json, const std::string& name) {
  SweepFile file;
  read_fields(parse_config(json.dump(), name), "", file);
  verify_sweep(file, name);
  return file;
}

}  // namespace lockstep::sweep

namespace lockstep {

sweep::Objectives ConfigValue<sweep::Objectives>::read(const ConfigNode& node,
                                                       const std::string& path) {
  sweep::Objectives objectives;
  const auto add = [&](const ConfigNode& each, const std::string& where) {
    read_fields(each, where, objectives.all.emplace_back());
  };
  if (node.kind == ConfigNode::Kind::List)
    for (size_t i = 0; i < node.items.size(); ++i)
      add(node.items[i], fmt::format("{}[{}]", path, i));
  else
    add(node, path);
  if (objectives.all.empty()) throw bad_value(node, path, "at least one objective");
  std::set<std::string> metrics;
  for (const auto& objective : objectives.all)
    if (!metrics.insert(objective.metric).second) throw bad_value(node, path, "each metric once");
  return objectives;
}

Json ConfigValue<sweep::Objectives>::dump(const sweep::Objectives& objectives) {
  if (objectives.all.size() == 1) return ConfigDumper::dump(objectives.all.front());
  auto list = Json::array();
  for (const auto& objective : objectives.all) list.push_back(ConfigDumper::dump(objective));
  return list;
}

}  // namespace lockstep
