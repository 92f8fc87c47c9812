// Follows the event logs of one node's ranks: new records, which logs have a writer, and how each
// ended. A log belongs to the node of the process that wrote it last: with --on-rank-loss continue, a
// process of another node may continue it.
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
  std::optional<RunEnd> end;  // as recorded by the last process that wrote the log
  bool has_writer = true;
  bool was_read = false;  // to its end, since the watch began; further records are new
};

// Thread: one thread at a time.
class NodeWatch {
 public:
  // `node_rank`: the node whose logs are followed. `may_move`: logs of other nodes may be continued on
  // this one. They are read, too, so there should be few.
  NodeWatch(std::filesystem::path run_dir, int node_rank, bool may_move);

  using OnRow = std::function<void(const LoggedRow&, const WatchedLog&)>;
  // Finds new logs and reads what was appended to the known ones; passes the rows that processes of
  // this node wrote to `on_row`.
  void poll(const OnRow& on_row);

  // Those of the node, ordered by rank; also those that another node has continued since.
  const std::map<std::filesystem::path, std::unique_ptr<WatchedLog>>& logs() const { return logs_; }
  // Without those that another node has continued: that node checks them.
  std::vector<const WatchedLog*> own_logs() const;
  std::vector<int64_t> process_ids() const;

  // Whether there are logs: also of other nodes, if they may move.
  bool has_logs() const { return !logs_.empty() || !others_.empty(); }
  // No log has a writer.
  bool all_closed() const;
  // Every log of the job has ended successfully.
  bool all_finished() const;
  // The first of own_logs() whose writer exited without recording an end; nullptr if there is none.
  const WatchedLog* first_silent() const;

 private:
  using Logs = std::map<std::filesystem::path, std::unique_ptr<WatchedLog>>;

  void find_logs();
  void read(WatchedLog& log, const OnRow& on_row) const;
  std::vector<const WatchedLog*> all_logs() const;
  bool is_in_job(const WatchedLog& log) const;
  bool is_own(const WatchedLog& log) const;

  std::filesystem::path run_dir_;
  int node_rank_;
  bool may_move_;
  int world_size_;      // of the run; an earlier part of it may have left logs of more ranks
  Logs logs_, others_;  // `others_`: of other nodes, if they may move
};

}  // namespace lockstep::tracking
