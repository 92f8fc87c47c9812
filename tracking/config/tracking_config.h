// The `tracking:` section of a run file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/config/period.h"
#include "lockstep/config_fields.h"
#include "lockstep/config_value.h"
#include "lockstep/part.h"
#include "lockstep/sink.h"
#include "tracking/alerts/alert_config.h"
#include "tracking/config/media_config.h"
#include "tracking/runs/on_ranks.h"

namespace lockstep::tracking {

// The sink that runs in the trainer; the tracking agent feeds all others.
inline constexpr const char* kConsoleSink = "console";

using SinkList = PartList<Sink, const SinkContext&>;

// Whose system metrics a run shows.
enum class SystemNodes { Main, All };
constexpr auto choices(SystemNodes) { return std::array{"main", "all"}; }

// Which checkpoints become artifacts.
enum class PublishedCheckpoints { None, Last, All };
constexpr auto choices(PublishedCheckpoints) { return std::array{"none", "last", "all"}; }

struct TrackingConfig {
  RankSelection ranks;
  std::optional<std::string> group;
  std::string run_name = "{name}-rank-{rank}";
  bool shared = false;
  SinkList sinks{sink_registry(), {kConsoleSink}};
  std::vector<std::string> plugins;
  bool agent = true;
  bool console = true;
  bool git_diff = true;
  Duration system_every{std::chrono::seconds(10)};
  SystemNodes system_nodes = SystemNodes::Main;
  AlertConfig alerts;
  MediaConfig media;
  bool modules = false;
  PublishedCheckpoints checkpoints = PublishedCheckpoints::None;
  Duration finish_timeout{std::chrono::seconds(10)};
  Duration upload_timeout{std::chrono::minutes(10)};
};

template <class V>
void fields(V& v, TrackingConfig& c) {
  v("ranks", c.ranks, "which ranks log: main, node, all, or a list of ranks");
  v("group", c.group,
    "group of the entries in the list of runs; with several entries per job it defaults to the "
    "job's id");
  v("run_name", c.run_name,
    "name of an entry when there are several per job; {name}, {id}, {rank}, {node}, {local_rank}");
  v("shared", c.shared,
    "sinks show one run that all logging ranks write into, each metric with its rank, instead of "
    "one run per rank");
  v("sinks", c.sinks,
    "sinks that the event log feeds during the run; the log itself is always written");
  v("plugins", c.plugins, "shared objects that add sinks");
  v("agent", c.agent,
    "start a tracking agent per node: it feeds the sinks and samples system metrics; without it "
    "`lockstep sync` feeds them later");
  v("console", c.console, "record the output of ranks if `lockstep launch` captures it");
  v("git_diff", c.git_diff,
    "record the uncommitted changes of tracked files with which the run is started (`git diff`)");
  v("system_every", c.system_every, "how often the agent samples the node: CPU, memory, GPUs, ...");
  v("system_nodes", c.system_nodes,
    "with `ranks: main`, the nodes whose system metrics are recorded: the main rank's, or all");
  v("alerts", c.alerts, "conditions that raise alerts");
  v("media", c.media, "what evaluations record besides metrics, on the main rank",
    needs("data.eval", "data.split.eval"));
  v("modules", c.modules,
    "record the table model/modules: parameters, memory and floating-point operations of the "
    "model's modules in the first step");
  v("checkpoints", c.checkpoints,
    "which checkpoints become versions of the artifact '<run name>-model', which sinks upload: "
    "none, the last one of the run, or all");
  v("finish_timeout", c.finish_timeout,
    "how long the end of training waits for the sinks; the rest continues in the background");
  v("upload_timeout", c.upload_timeout,
    "how long the agent continues after the end of the run; then `lockstep sync` completes it");
}

}  // namespace lockstep::tracking
