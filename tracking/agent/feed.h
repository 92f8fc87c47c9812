// Feeds one sink with the records of one entry in the list of runs, from its event logs. Each
// record is delivered once per destination: the delivered positions, and the state that the sink
// needs to resume, are stored in <run>/sinks/<sink>/<entry>/position.json. Another destination of
// the same sink has its own directory, <entry>@<part of a digest>.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/system/file_descriptor.h"
#include "tracking/config/tracking_config.h"
#include "tracking/log/log_tail.h"

namespace lockstep::tracking {

// Which logs make up an entry.
struct EntryPlan {
  std::filesystem::path run_dir;
  std::string id;                             // of the entry; also names its directory
  std::filesystem::path log;                  // provides identity and config of the entry
  std::vector<std::filesystem::path> others;  // of its node (system metrics), or of other ranks
  // From the node's log: everything except the console lines of `excluded_consoles`, ranks with
  // their own entries; or, unless `only_consoles` is empty, only the console lines of those ranks.
  std::vector<int> excluded_consoles, only_consoles;
  bool is_first = true;  // of the entries of the job
  bool labels = false;   // add "/rank-N" to metric names: several ranks share the entry
};

enum class FeedState {
  Waiting,  // everything written so far was passed to the sink
  More,     // more records are available already
  Done,     // everything is delivered, including the end of the run
};

class Feed {
 public:
  using SinkPart = SinkList::PartOf;

  Feed(const SinkPart& part, EntryPlan plan, Environment environment);
  ~Feed();

  // Passes new records to the sink, and flushes if due. `end`: how the run ended; set once nothing
  // more will be written to the logs. Throws what the sink throws; the next call resumes after the
  // last flush.
  FeedState pump(const std::optional<RunEnd>& end);

  // Adds those of `logs` that the entry does not have yet to EntryPlan::others.
  void add_logs(const std::vector<std::filesystem::path>& logs);

  // Bytes of the logs that are not yet delivered.
  uint64_t backlog() const;
  const EntryPlan& plan() const { return plan_; }

 private:
  struct Source {
    LogTail tail;
    bool is_own;  // EntryPlan::log
  };

  bool lock();
  void load();
  void open_source(const std::filesystem::path& log, bool is_own);
  void open_sources();
  void open_others();
  std::shared_ptr<Sink> make_sink() const;
  bool resolve_destination();
  RunInfo info_of_entry() const;
  bool is_complete(const std::optional<RunEnd>& end);
  bool prepare();
  void start_sink();
  bool read_source(Source& source);
  void deliver(const Record& record, Source& source);
  void deliver_row(const LoggedRow& row, const Source& source);
  bool is_wanted(const Record& record, const Source& source) const;
  bool has_labels(const Source& source) const;
  std::string label(const std::string& name, const Source& source) const;
  void flush(const std::optional<RunEnd>& finished);
  void roll_back();

  SinkPart part_;
  EntryPlan plan_;
  Environment environment_;
  std::filesystem::path dir_;
  FileDescriptor lock_;  // held by one process at a time: the agent or `lockstep sync`
  Json stored_;          // position.json
  bool destination_resolved_ = false;
  Json destination_;  // a digest of Sink::destination()
  bool loaded_ = false;
  std::vector<std::unique_ptr<Source>> sources_;
  std::shared_ptr<Sink> sink_;
  bool pending_ = false;       // passed to the sink, but not flushed
  size_t pending_values_ = 0;  // approximate number of pending values
  bool run_is_over_ = false;
  std::chrono::steady_clock::time_point flushed_at_;
};

}  // namespace lockstep::tracking
