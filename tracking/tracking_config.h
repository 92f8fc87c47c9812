// The `tracking:` section of a run file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/config_fields.h"
#include "tracking/on_ranks.h"

namespace lockstep {

struct TrackingConfig {
  RankSelection ranks;
  std::optional<std::string> group;
  std::string run_name = "{name}-rank-{rank}";
  std::vector<std::string> sinks = {"console"};  // names in sink_registry(); see verify_sinks()
};

template <class V>
void fields(V& v, TrackingConfig& c) {
  v("ranks", c.ranks, "which ranks log: main, node, all, or a list of ranks");
  v("group", c.group,
    "group of the entries in the list of runs; with several entries per job it defaults to the "
    "job's id");
  v("run_name", c.run_name,
    "name of an entry when there are several per job; {name}, {id}, {rank}, {node}, {local_rank}");
  v("sinks", c.sinks,
    "what the event log feeds while the run goes on; the log itself is always written");
}

}  // namespace lockstep
