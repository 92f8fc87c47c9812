#include "tracking/agent/node_watch.h"

#include <algorithm>
#include <limits>

#include "tracking/agent/run_entries.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {

NodeWatch::NodeWatch(std::filesystem::path run_dir, int node_rank)
    : run_dir_(std::move(run_dir)), node_rank_(node_rank) {
  const auto job = read_job(run_dir_);
  world_size_ = job ? job->world_size : std::numeric_limits<int>::max();
}

bool NodeWatch::is_in_job(const WatchedLog& log) const {
  return log.has_writer || log.rank() < world_size_;
}

void NodeWatch::poll(const OnRow& on_row) {
  if (rank_logs(run_dir_).size() > logs_.size())
    for (const auto& path : logs_of_nodes(run_dir_, std::set{node_rank_}))
      if (!logs_.contains(path)) logs_[path] = std::make_unique<WatchedLog>(path);
  for (auto& [path, log] : logs_) {
    log->has_writer = has_writer(path);  // first: without a writer, the next read is final
    read(*log, on_row);
  }
}

void NodeWatch::read(WatchedLog& log, const OnRow& on_row) {
  while (const auto record = log.tail.next()) {
    if (std::holds_alternative<RunInfo>(*record)) log.end.reset();
    if (const auto* end = std::get_if<RunEnd>(&*record)) log.end = *end;
    if (const auto* row = std::get_if<LoggedRow>(&*record)) on_row(*row, log);
  }
}

std::vector<int64_t> NodeWatch::process_ids() const {
  std::vector<int64_t> ids;
  for (const auto& [path, log] : logs_)
    if (log->has_writer && log->tail.identity()) ids.push_back(log->tail.identity()->pid);
  return ids;
}

bool NodeWatch::all_closed() const {
  return std::ranges::none_of(logs_, [](const auto& item) { return item.second->has_writer; });
}

bool NodeWatch::all_finished() const {
  return std::ranges::all_of(logs_, [this](const auto& item) {
    const auto& log = *item.second;
    if (!is_in_job(log)) return true;
    return log.end && log.end->state == RunState::Finished && !log.has_writer;
  });
}

const WatchedLog* NodeWatch::first_silent() const {
  for (const auto& [path, log] : logs_)
    if (is_in_job(*log) && !log->has_writer && !log->end) return log.get();
  return nullptr;
}

}  // namespace lockstep::tracking
