// Writes the event log of one process. What an append returned from is kept even if the process is
// killed. Thread: the training thread only. An append is a copy into mapped memory: it waits for no
// disk and no reader. Only the one that begins a new segment, once per `max_bytes`, syncs the file
// that it leaves.
//
// Failure: opening throws; afterwards nothing does. When the disk is full, records are kept in
// memory, at most kMaxHeldBytes, and written as soon as there is room; what does not fit is
// counted by num_dropped(), and failure() says why. The log notes such a gap as a text. The end of
// the run always has room.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/system/file_descriptor.h"
#include "lockstep/config_value.h"
#include "tracking/log/event_frame.h"
#include "tracking/log/event_log_segment.h"
#include "tracking/log/mapped_append.h"
#include "tracking/log/record_codec.h"

namespace lockstep::tracking {

// Where a log goes on in a new segment.
constexpr uint64_t kMaxSegmentBytes = uint64_t{1} << 30;
// What is kept in memory while the disk is full.
constexpr size_t kMaxHeldBytes = size_t{4} << 20;

class EventLogWriter {
 public:
  // Creates the log, or continues its last segment after cutting a torn tail; metric names keep
  // their ids. Holds an exclusive lock on `path` as long as this object lives (or until close()),
  // also while a later segment is written: that is how readers know that the run is alive. A record
  // that would make a file larger than `max_bytes` begins the next segment; one record fits into
  // any. Where no segment can be begun, the log goes on in the one it has for a while. Throws
  // Environment: cannot be created or locked, another writer has it, it is no event log, the disk
  // is full.
  explicit EventLogWriter(const std::filesystem::path& path, uint64_t max_bytes = kMaxSegmentBytes);

  // Whether another process wrote it before.
  bool continues() const { return info_.has_value(); }

  // First record of every writing process, also of one that continues a log.
  void identity(const RunInfo& info);
  void config(const Json& config);
  // A metric without a name, or with one of more than 512 bytes, is left out and counted as
  // dropped.
  void scalars(const ScalarRow& row);
  void text(const TextLine& text) { append(FrameType::Text, encode(text)); }
  void histogram(const Histogram& histogram) { append(FrameType::Histogram, encode(histogram)); }
  void image(const Image& image) { append(FrameType::Image, encode(image)); }
  void table(const Table& table) { append(FrameType::Table, encode(table)); }
  void alert(const Alert& alert) { append(FrameType::Alert, encode(alert)); }
  void artifact(const ArtifactUse& artifact) { append(FrameType::Artifact, encode(artifact)); }
  void console(const ConsoleLine& line) { append(FrameType::Console, encode(line)); }
  void heartbeat(double time);
  // Readers forget the scalars after `step`; their new values follow.
  void rewind(int64_t step);
  void summary(const Json& values);
  void end(const RunEnd& end);

  // What a person should be told at once, each once: that the disk is full, and that there is room
  // again. nullopt when there is nothing new.
  std::optional<TextLine> take_news() { return std::exchange(news_, std::nullopt); }

  // Cuts the file to what was written, syncs it to the disk and gives up the lock. Later appends
  // are dropped.
  void close() noexcept;

  uint64_t num_dropped() const { return num_dropped_; }
  // Why something was dropped; empty when nothing was.
  const std::string& failure() const { return failure_; }

 private:
  // Since the disk is full.
  struct StopSignals {
    std::string why;
    double since = 0;  // unix seconds
    std::chrono::steady_clock::time_point next_try;
    std::string held;  // frames
    uint64_t num_held = 0, num_lost = 0;
  };

  bool append(FrameType type, std::string_view payload);               // false: dropped
  bool write(FrameType type, std::string_view payload, size_t spare);  // false: no room
  void interrupt();
  bool hold(FrameType type, std::string_view payload);  // false: dropped
  bool go_on(bool at_once);                             // whether there is no interruption any more
  void lose_held();
  void continue_segment();
  void append_header();
  bool must_begin_segment(size_t frame_bytes) const;
  void begin_segment();
  LogState state() const;
  std::optional<uint32_t> key_of(std::string_view name);
  std::optional<uint32_t> key_at(size_t place, std::string_view name);
  bool drop(const std::string& why);  // false

  std::filesystem::path path_;
  const uint64_t max_bytes_;
  uint64_t limit_;       // where this segment is left: max_bytes_, more where that failed
  FileDescriptor lock_;  // of path_; given up after the last segment is cut
  uint32_t segment_ = 0;
  uint64_t begin_bytes_ = kEventLogHeaderBytes;  // of this segment, before its own records
  std::unique_ptr<MappedAppend> file_;
  std::optional<RunInfo> info_;
  Json config_;
  std::map<std::string, uint32_t, std::less<>> keys_;
  uint32_t num_keys_ = 0;                                   // ids given so far
  uint32_t num_written_keys_ = 0;                           // without those that are held
  std::string payload_;                                     // reused by scalars()
  std::vector<std::pair<std::string, uint32_t>> row_keys_;  // of the last row, by place
  std::optional<StopSignals> interruption_;
  std::optional<TextLine> news_;
  uint64_t num_dropped_ = 0;
  std::string failure_;
};

}  // namespace lockstep::tracking
