#include "tracking/agent/sync.h"

#include <poll.h>

#include <algorithm>
#include <functional>

#include "core/config/plugin.h"
#include "lockstep/error.h"
#include "tracking/agent/run_entries.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {
namespace {

constexpr auto kAgentExitTimeout = std::chrono::seconds(10);
constexpr int kSyncTickMs = 200;

bool at_rest(const SinkStatus& sink) { return sink.complete || sink.gave_up; }

// The agent of a run that has just ended may still write its last records. Sinks must receive them
// before the end.
void wait_for_node_logs(const std::filesystem::path& run_dir) {
  const auto deadline = std::chrono::steady_clock::now() + kAgentExitTimeout;
  const auto logs = node_logs(run_dir);
  while (std::ranges::any_of(logs, has_writer) && std::chrono::steady_clock::now() < deadline)
    ::poll(nullptr, 0, kSyncTickMs);
}

// A sink of a list in a run file.
bool is_registered(const ConfigNode& sink) {
  const auto* name = sink.kind == ConfigNode::Kind::Map ? sink.find("name") : &sink;
  return name && sink_registry().find(name->scalar);
}

void load_plugins_of_sinks(const ConfigNode& section) {
  if (const auto* plugins = section.find("plugins"))
    for (const auto& path : ConfigValue<std::vector<std::string>>::read(*plugins, "plugins"))
      load_plugin(path, "");
}

}  // namespace

TrackingConfig read_tracking_config(const std::filesystem::path& run_dir,
                                    const std::vector<ConfigNode>& wanted) {
  TrackingConfig config;
  std::error_code ignored;
  if (!std::filesystem::exists(run_dir / "config.yaml", ignored)) return config;
  auto root = read_config_file(run_dir / "config.yaml");
  auto* section = root.find("tracking");
  if (!section || section->kind != ConfigNode::Kind::Map) return config;
  if (wanted.empty() || !std::ranges::all_of(wanted, is_registered))
    load_plugins_of_sinks(*section);
  else if (auto* sinks = section->find("sinks"))
    std::erase_if(sinks->items, std::not_fn(is_registered));
  read_fields(*section, "tracking", config);
  return config;
}

std::vector<SinkStatus> sync_run(const SyncOptions& options) {
  wait_for_node_logs(options.run_dir);
  std::vector<std::unique_ptr<SinkThread>> sinks;
  for (const auto& part : options.config.sinks.parts()) {
    if (part.name() == kConsoleSink) continue;
    sinks.push_back(std::make_unique<SinkThread>(part, options.environment));
    for (const auto& plan : plan_entries(options.run_dir, options.config, std::nullopt)) {
      sinks.back()->add(plan);
      if (const auto end = options.ends.find(plan.id); end != options.ends.end())
        sinks.back()->set_end(plan.id, end->second);
    }
  }
  const auto deadline = std::chrono::steady_clock::now() + options.timeout;
  std::vector<SinkStatus> statuses;
  while (true) {
    statuses.clear();
    for (const auto& sink : sinks) statuses.push_back(sink->status());
    if (std::ranges::all_of(statuses, at_rest) || std::chrono::steady_clock::now() >= deadline)
      break;
    if (options.on_progress) options.on_progress(statuses);
    ::poll(nullptr, 0, kSyncTickMs);
  }
  if (!std::ranges::all_of(statuses, &SinkStatus::complete))
    for (auto& sink : sinks) static_cast<void>(sink.release());  // may hang: see the header
  return statuses;
}

}  // namespace lockstep::tracking
