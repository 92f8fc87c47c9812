// A trial: one point of the space with its results, as its file in the sweep directory holds it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sweep/space.h"
#include "sweep/sweep_file.h"

namespace lockstep::sweep {

// Open: not ended; it is running, or waits to be run or continued.
enum class TrialState { Open, Finished, Pruned, Failed };
constexpr auto choices(TrialState) { return std::array{"open", "finished", "pruned", "failed"}; }

// Who chose the point. Ask: the search, for a caller of `lockstep sweep ask`.
enum class TrialSource { Search, Hand, Ask, Import };
constexpr auto choices(TrialSource) { return std::array{"search", "hand", "ask", "import"}; }

// One value of the objective during a run.
struct Evaluation {
  int64_t step = 0;
  double value = 0;  // may be NaN

  bool operator==(const Evaluation&) const = default;
};

struct Trial {
  int64_t number = 0;
  TrialSource by = TrialSource::Search;
  Point parameters;
  std::vector<int64_t> saw;       // trials whose results the search used
  double created = 0, ended = 0;  // unix seconds; 0: not yet
  TrialState state = TrialState::Open;
  bool is_handed_out = false;  // while it is open: a caller of `lockstep sweep ask` runs it
  std::vector<double> values;  // of the objectives; NaN where not a number
  std::vector<Evaluation>
      evaluations;                // of the first objective in the first run, until it was pruned
  std::vector<std::string> runs;  // ids, one per seed
  std::string reason;             // why it was pruned or failed; else empty

  bool is_open() const { return state == TrialState::Open; }
  // Whether it has a result that the search learns from.
  bool counts() const { return state == TrialState::Finished || state == TrialState::Pruned; }
};

Json to_json(const Trial& trial);
// Throws Config if `json` is not a trial; `name` is used in the message.
Trial trial_from_json(const Json& json, const std::string& name);

}  // namespace lockstep::sweep
