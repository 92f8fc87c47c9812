#include "tracking/agent/node_recorder.h"

#include <fmt/format.h>
#include <unistd.h>

#include "core/system/local_address.h"
#include "tracking/log/log_tail.h"
#include "tracking/log/unix_time.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {
namespace {

constexpr uint64_t kMaxConsoleBytes = 256u << 20;

RunInfo describe_node(const std::filesystem::path& run_dir, int node_rank) {
  const auto job = run_dir.filename().string();
  return {.id = fmt::format("{}-node-{}", job, node_rank),
          .name = fmt::format("node {}", node_rank),
          .job_type = "agent",
          .job_id = job,
          .node_rank = node_rank,
          .host = own_host_name(),
          .pid = ::getpid(),
          .created = unix_now()};
}

}  // namespace

NodeRecorder::NodeRecorder(const std::filesystem::path& run_dir, int node_rank)
    : log_(node_log_path(run_dir, node_rank)) {
  LogTail before(node_log_path(run_dir, node_rank));
  while (const auto record = before.next()) {
    if (const auto* row = std::get_if<LoggedRow>(&*record)) num_samples_ = row->step + 1;
    if (const auto* line = std::get_if<ConsoleLine>(&*record)) {
      console_bytes_ += line->line.size();
      ++console_lines_[{line->rank, line->is_error}];
    }
  }
  log_.identity(describe_node(run_dir, node_rank));
}

void NodeRecorder::sample(const std::vector<std::pair<std::string, double>>& values) {
  std::vector<Metric> metrics;
  for (const auto& [name, value] : values) metrics.push_back({name, value});
  log_.scalars({.step = num_samples_++, .time = unix_now(), .values = metrics});
}

void NodeRecorder::console(const ConsoleLine& line) {
  if (console_bytes_ > kMaxConsoleBytes) return;
  console_bytes_ += line.line.size();
  log_.console(line);
}

void NodeRecorder::heartbeat() { log_.heartbeat(unix_now()); }

}  // namespace lockstep::tracking
