// Feeds one sink with the records of one entry in the list of runs, from its event logs, each
// record once for each destination: what the sink has taken, and what it needs to go on, is kept in
// <run>/sinks/<sink>/<entry>/position.json. Another destination of the same sink has a directory of
// its own, <entry>@ and a part of a digest.
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
  std::string id;                             // of the entry, and of its directory
  std::filesystem::path log;                  // whose identity and config the entry has
  std::vector<std::filesystem::path> others;  // of its node (system metrics), or of other ranks
  // Of the node's own log: everything but the console lines of these ranks, which have entries of
  // their own; or, unless it is empty, nothing but the console lines of `only_consoles`.
  std::vector<int> others_consoles, only_consoles;
  bool is_first = true;  // of the entries of the job
  bool labels = false;   // metrics of ranks carry "/rank-N": several write into one
};

enum class FeedState {
  Waiting,  // everything written so far was given to the sink
  More,     // there is more to do at once
  Done,     // everything is delivered, the end of the run included
};

class Feed {
 public:
  using SinkPart = SinkList::PartOf;

  Feed(const SinkPart& part, EntryPlan plan, Environment environment);
  ~Feed();

  // Gives what is new to the sink, and flushes when that is due. `end`: how the run ended, once
  // nothing more will be written to the logs. Throws what the sink throws; the next call begins
  // again behind the last flush.
  FeedState pump(const std::optional<RunEnd>& end);

  // Bytes of the logs that are not yet delivered.
  uint64_t backlog() const;
  const EntryPlan& plan() const { return plan_; }

 private:
  struct Source {
    LogTail tail;
    bool is_own;  // whose identity counts
  };

  bool lock();
  void load();
  void open_sources();
  std::shared_ptr<Sink> make_sink() const;
  bool settle();
  RunInfo info_of_entry() const;
  bool is_complete(const std::optional<RunEnd>& end);
  bool prepare();
  void start_sink();
  bool take(Source& source);
  void deliver(const Record& record, Source& source);
  void deliver_row(const LoggedRow& row, const Source& source);
  bool is_wanted(const Record& record, const Source& source) const;
  bool has_labels(const Source& source) const;
  std::string label(const std::string& name, const Source& source) const;
  void flush(const std::optional<RunEnd>& finished);
  void go_back();

  SinkPart part_;
  EntryPlan plan_;
  Environment environment_;
  std::filesystem::path dir_;
  FileDescriptor lock_;  // one feeder at a time: the agent, or `lockstep sync`
  Json stored_;          // position.json
  bool settled_ = false;
  Json destination_;  // a digest of Sink::destination()
  bool loaded_ = false;
  std::vector<std::unique_ptr<Source>> sources_;
  std::shared_ptr<Sink> sink_;
  bool pending_ = false;       // given, but not flushed
  size_t pending_values_ = 0;  // how many of them, about
  bool run_is_over_ = false;
  std::chrono::steady_clock::time_point flushed_at_;
};

}  // namespace lockstep::tracking
