// Which ranks log, and as what: the only place that decides it.
//   ranks: main     rank 0, as the job's own entry
//   ranks: node     local rank 0 of every node, one entry each
//   ranks: all      every rank, one entry each
//   ranks: [0, 3]   these ranks, one entry each
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/config_value.h"
#include "lockstep/run_info.h"

namespace lockstep::tracking {

struct RankSelection {
  enum class Kind { Main, Node, All, List };

  Kind kind = Kind::Main;
  std::vector<int> ranks;  // List: ascending, each once

  bool operator==(const RankSelection&) const = default;
};

}  // namespace lockstep::tracking

namespace lockstep {

template <>
struct ConfigValue<tracking::RankSelection> {
  static tracking::RankSelection read(const ConfigNode& node, const std::string& path);
  static Json dump(const tracking::RankSelection& selection);
  static Json schema();
};

}  // namespace lockstep

namespace lockstep::tracking {

// How entries are called when there is one per rank.
struct EntryNaming {
  std::string run_name =
      "{name}-rank-{rank}";  // placeholders {name}, {id}, {rank}, {node}, {local_rank}
  std::optional<std::string>
      group;  // default: the job's id, so that the entries of a job stay together
};

// Whether the process of these rank numbers logs. Throws Config when the selection names a rank
// that the job does not have.
bool is_logging(const RankSelection& selection, const RunInfo& process);

// Throws Config when `run_name` has an unknown placeholder.
void verify_run_name(const std::string& run_name);

// The entry under which `process` logs, or nullopt when it does not. `process` has the job's id as
// `id` and `job_id`, the job's name, and the rank numbers of the process. Throws as the two above.
std::optional<RunInfo> decide(const RankSelection& selection, const RunInfo& process,
                              const EntryNaming& naming);

// The rank that speaks for the job: it writes run.json and owns the terminal.
inline bool is_main(int rank) { return rank == 0; }

// The rank that starts its node's tracking agent.
inline bool starts_agent(int local_rank) { return local_rank == 0; }

// How many of the ranks `first` to `first + count - 1`, those of a node, log.
int count_logging(const RankSelection& selection, int first, int count);

// Whether this rank shows progress: the lowest one that logs, so that exactly one does.
bool shows_progress(const RankSelection& selection, int rank);

}  // namespace lockstep::tracking
