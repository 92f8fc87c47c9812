// Watches the event logs of one node's ranks: what they say, who still writes, and how they ended.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tracking/log/log_tail.h"

namespace lockstep::tracking {

struct WatchedLog {
  explicit WatchedLog(const std::filesystem::path& path) : tail(path) {}
  int rank() const { return tail.identity() ? tail.identity()->rank : 0; }

  LogTail tail;
  std::optional<RunEnd> end;  // of the last process that wrote it, as far as it could say so itself
  bool has_writer = true;
};

// Thread: one thread at a time.
class NodeWatch {
 public:
  // `node_rank`: whose logs count.
  NodeWatch(std::filesystem::path run_dir, int node_rank);

  using OnRow = std::function<void(const LoggedRow&, const WatchedLog&)>;
  // Looks for new logs and reads what was added to the known ones; rows are shown to `on_row`.
  void poll(const OnRow& on_row);

  // In the order of ranks.
  const std::map<std::filesystem::path, std::unique_ptr<WatchedLog>>& logs() const { return logs_; }
  std::vector<int64_t> process_ids() const;

  // Nobody writes any of the logs.
  bool all_closed() const;
  // Every log has an end that is a success.
  bool all_finished() const;
  // The first log whose writer is gone without a word; nullptr when there is none.
  const WatchedLog* first_silent() const;

 private:
  void read(WatchedLog& log, const OnRow& on_row);

  bool takes_part(const WatchedLog& log) const;

  std::filesystem::path run_dir_;
  int node_rank_;
  int world_size_;  // of the run; more ranks may have left logs, in an earlier part of it
  std::map<std::filesystem::path, std::unique_ptr<WatchedLog>> logs_;
};

}  // namespace lockstep::tracking
