#include "sweep/sweep_json.h"

#include <algorithm>

#include "lockstep/error.h"
#include "sweep/ranking.h"

namespace lockstep::sweep {

std::string state_of(const SweepDirectory& sweep, const std::vector<Trial>& trials) {
  if (sweep.is_controlled()) return "running";
  const bool has_open = std::ranges::any_of(trials, &Trial::is_open);
  return sweep.is_complete(trials) && !has_open ? "done" : "stopped";
}

std::map<std::string, int> counts_of(const std::vector<Trial>& trials) {
  std::map<std::string, int> counts;
  for (const auto& trial : trials) ++counts[name_of(trial.state)];
  return counts;
}

Json summary_json(const SweepDirectory& sweep, const std::vector<Trial>& trials) {
  Json json = {{"name", sweep.file().name},
               {"id", sweep.info().id},
               {"dir", sweep.path().string()},
               {"state", state_of(sweep, trials)},
               {"created", sweep.info().created},
               {"ranks", sweep.info().ranks},
               {"sweep", ConfigDumper::dump(sweep.file())},
               {"counts", Json::object()},
               {"best", Json::array()}};
  for (const auto* state : choices(TrialState{})) json["counts"][state] = 0;
  for (const auto& [state, count] : counts_of(trials)) json["counts"][state] = count;
  for (const auto& trial : best_of(sweep.file().objective.all, trials))
    json["best"].push_back(to_json(trial));
  return json;
}

Json summaries_json(const std::filesystem::path& runs) {
  std::vector<Json> all;
  for (const auto& name : sweep_names(runs)) {
    const auto path = sweeps_path(runs) / name;
    try {
      const SweepDirectory sweep(path);
      all.push_back(summary_json(sweep, sweep.trials()));
    } catch (const Error& error) {
      all.push_back({{"name", name}, {"dir", path.string()}, {"problem", error.what()}});
    }
  }
  std::ranges::stable_sort(all, {}, [](const Json& one) { return -one.value("created", 0.0); });
  return all;
}

Json sweep_json(const SweepDirectory& sweep) {
  const auto trials = sweep.trials();
  auto json = summary_json(sweep, trials);
  json["trials"] = Json::array();
  for (const auto& trial : trials) json["trials"].push_back(to_json(trial));
  return json;
}

}  // namespace lockstep::sweep
