#include "tracking/agent/node_watch.h"

#include <algorithm>
#include <limits>

#include "tracking/agent/run_entries.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {

NodeWatch::NodeWatch(std::filesystem::path run_dir, int node_rank, bool may_move)
    : run_dir_(std::move(run_dir)), node_rank_(node_rank), may_move_(may_move) {
  const auto job = read_job(run_dir_);
  world_size_ = job ? job->world_size : std::numeric_limits<int>::max();
}

bool NodeWatch::is_in_job(const WatchedLog& log) const {
  return log.has_writer || log.rank() < world_size_;
}

// As of the last record read.
bool NodeWatch::is_own(const WatchedLog& log) const {
  const auto& writer = log.tail.identity();
  return writer && writer->node_rank == node_rank_;
}

void NodeWatch::poll(const OnRow& on_row) {
  find_logs();
  const OnRow ignore = [](const auto&, const auto&) {};
  for (auto* logs : {&others_, &logs_})
    for (auto& [path, log] : *logs) {
      log->has_writer = has_writer(path);  // first: without a writer, the next read is final
      read(*log, logs == &logs_ ? on_row : ignore);
    }
}

void NodeWatch::find_logs() {
  const auto paths = rank_logs(run_dir_);
  const auto is_new = [this](const auto& path) {
    return !logs_.contains(path) && !others_.contains(path);
  };
  if (paths.size() > logs_.size() + others_.size()) {
    for (const auto& path : logs_of_nodes(run_dir_, std::set{node_rank_}))
      if (is_new(path)) logs_[path] = std::make_unique<WatchedLog>(path);
    for (const auto& path : paths)
      if (may_move_ && is_new(path)) others_[path] = std::make_unique<WatchedLog>(path);
  }
  std::erase_if(others_, [this](const auto& item) {
    const auto& [path, log] = item;
    if (!is_own(*log)) return false;
    logs_[path] = std::make_unique<WatchedLog>(path);  // again, for the rows that this node wrote
    return true;
  });
}

void NodeWatch::read(WatchedLog& log, const OnRow& on_row) const {
  while (const auto record = log.tail.next()) {
    if (std::holds_alternative<RunInfo>(*record)) log.end.reset();
    if (const auto* end = std::get_if<RunEnd>(&*record)) log.end = *end;
    if (const auto* row = std::get_if<LoggedRow>(&*record); row && is_own(log)) on_row(*row, log);
  }
  log.was_read = true;
}

std::vector<int64_t> NodeWatch::process_ids() const {
  std::vector<int64_t> ids;
  for (const auto* log : own_logs())
    if (log->has_writer) ids.push_back(log->tail.identity()->pid);
  return ids;
}

std::vector<const WatchedLog*> NodeWatch::own_logs() const {
  std::vector<const WatchedLog*> own;
  for (const auto& [path, log] : logs_)
    if (is_own(*log)) own.push_back(log.get());
  return own;
}

std::vector<const WatchedLog*> NodeWatch::all_logs() const {
  std::vector<const WatchedLog*> all;
  for (const auto* logs : {&logs_, &others_})
    for (const auto& [path, log] : *logs) all.push_back(log.get());
  return all;
}

bool NodeWatch::all_closed() const {
  return std::ranges::none_of(all_logs(), &WatchedLog::has_writer);
}

bool NodeWatch::all_finished() const {
  return std::ranges::all_of(all_logs(), [this](const WatchedLog* log) {
    if (!is_in_job(*log)) return true;
    return log->end && log->end->state == RunState::Finished && !log->has_writer;
  });
}

const WatchedLog* NodeWatch::first_silent() const {
  for (const auto* log : own_logs())
    if (is_in_job(*log) && !log->has_writer && !log->end) return log;
  return nullptr;
}

}  // namespace lockstep::tracking
