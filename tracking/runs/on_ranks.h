// Decides which ranks log, and under which entry.
//   ranks: main     rank 0, as the job's entry
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
  std::vector<int> ranks;  // List: ascending, without duplicates

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

// Names of entries if there are several per job.
struct EntryNaming {
  std::string run_name =
      "{name}-rank-{rank}";  // placeholders {name}, {id}, {rank}, {node}, {local_rank}
  std::optional<std::string>
      group;  // default: the job's id, so that the entries of a job stay together
};

// Whether the process with these rank numbers logs. Throws Config if the selection names a rank
// that the job does not have.
bool is_logging(const RankSelection& selection, const RunInfo& process);

// Throws Config if `run_name` has an unknown placeholder.
void verify_run_name(const std::string& run_name);

// The entry under which `process` logs, or nullopt if it does not log. `process` has the job's ID
// as `id` and `job_id`, the job's name, and the rank numbers of the process. Throws as the two
// functions above.
std::optional<RunInfo> decide(const RankSelection& selection, const RunInfo& process,
                              const EntryNaming& naming);

// The rank that represents the job: it writes run.json and the console output.
inline bool is_main(int rank) { return rank == 0; }

// The rank that starts its node's tracking agent.
inline bool starts_agent(int local_rank) { return local_rank == 0; }

// Number of logging ranks in `first` to `first + count - 1`, the ranks of a node.
int count_logging(const RankSelection& selection, int first, int count);

// Whether this rank shows progress: the lowest one that logs.
bool shows_progress(const RankSelection& selection, int rank);

}  // namespace lockstep::tracking
