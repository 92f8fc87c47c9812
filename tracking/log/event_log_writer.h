// Writes the event log of one process. A record is safe once its append returned, even if the
// process is killed. Thread: the training thread only. An append is a copy into mapped memory; it
// does not wait for a disk or a reader. Only the append that starts a new segment, once per
// `max_bytes`, syncs the previous file.
//
// Errors: the constructor throws; other calls do not. If the disk is full, records are held in
// memory, at most kMaxHeldBytes, and written once there is space; records that do not fit are
// counted by num_dropped(), and failure() gives the reason. The log records such a gap as a text.
// There is always space for the end of the run.
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

// Size at which a log is continued in a new segment.
constexpr uint64_t kMaxSegmentBytes = uint64_t{1} << 30;
// Held in memory while the disk is full.
constexpr size_t kMaxHeldBytes = size_t{4} << 20;

class EventLogWriter {
 public:
  // Creates the log, or continues its last segment after truncating an incomplete frame; metric
  // names keep their ids. Holds an exclusive lock on `path` until close() or destruction, also
  // while it writes a later segment: readers use the lock to see that the run is alive. A record
  // that would make a file larger than `max_bytes` starts the next segment; a record may have any
  // size. If a segment cannot be created, the log continues in the current one and tries again
  // later. Throws Environment: the file cannot be created or locked, another writer has it, it is
  // not an event log, the disk is full.
  explicit EventLogWriter(const std::filesystem::path& path, uint64_t max_bytes = kMaxSegmentBytes);

  // Whether another process wrote to it before.
  bool continues() const { return info_.has_value(); }

  // The first record of every process, also if it continues a log.
  void identity(const RunInfo& info);
  void config(const Json& config);
  // Drops metrics with an empty name or one of more than 512 bytes.
  void scalars(const ScalarRow& row);
  void text(const TextLine& text) { append(FrameType::Text, encode(text)); }
  void histogram(const Histogram& histogram) { append(FrameType::Histogram, encode(histogram)); }
  void image(const Image& image) { append(FrameType::Image, encode(image)); }
  void clip(const Clip& clip) { append(FrameType::Clip, encode(clip)); }
  void table(const Table& table) { append(FrameType::Table, encode(table)); }
  void alert(const Alert& alert) { append(FrameType::Alert, encode(alert)); }
  void artifact(const ArtifactUse& artifact) { append(FrameType::Artifact, encode(artifact)); }
  void console(const ConsoleLine& line) { append(FrameType::Console, encode(line)); }
  void heartbeat(double time);
  // Readers discard the scalars after `step`; new values follow.
  void rewind(int64_t step);
  void summary(const Json& values);
  void end(const RunEnd& end);

  // A message for the user, returned once: the disk is full, or has space again. nullopt if there
  // is none.
  std::optional<TextLine> take_notice() { return std::exchange(notice_, std::nullopt); }

  // Truncates the file to its content, syncs it to disk and releases the lock. Later appends are
  // dropped.
  void close() noexcept;

  uint64_t num_dropped() const { return num_dropped_; }
  // Why a record was dropped; empty if none was.
  const std::string& failure() const { return failure_; }

 private:
  // State while the disk is full.
  struct Outage {
    std::string reason;
    double since = 0;  // unix seconds
    std::chrono::steady_clock::time_point next_try;
    std::string held;  // frames
    uint64_t num_held = 0, num_dropped = 0;
  };

  bool append(FrameType type, std::string_view payload);               // false: dropped
  bool write(FrameType type, std::string_view payload, size_t spare);  // false: no room
  void begin_outage();
  bool hold(FrameType type, std::string_view payload);  // false: dropped
  bool end_outage(bool force);                          // true: the disk has space
  void drop_held();
  void continue_segment();
  void append_header();
  bool must_begin_segment(size_t frame_bytes) const;
  void begin_segment();
  LogState state() const;
  std::optional<uint32_t> key_of(std::string_view name);
  std::optional<uint32_t> key_at(size_t index, std::string_view name);
  bool drop(const std::string& why);  // false

  std::filesystem::path path_;
  const uint64_t max_bytes_;
  uint64_t limit_;       // size at which the next segment starts: max_bytes_, more after a failure
  FileDescriptor lock_;  // of path_; released after the last segment is truncated
  uint32_t segment_ = 0;
  uint64_t begin_bytes_ = kEventLogHeaderBytes;  // of this segment, before its new records
  std::unique_ptr<MappedAppend> file_;
  std::optional<RunInfo> info_;
  Json config_;
  std::map<std::string, uint32_t, std::less<>> keys_;
  uint32_t num_keys_ = 0;                                   // ids assigned so far
  uint32_t num_written_keys_ = 0;                           // without held ones
  std::string payload_;                                     // reused by scalars()
  std::vector<std::pair<std::string, uint32_t>> row_keys_;  // of the last row, by index
  std::optional<Outage> outage_;
  std::optional<TextLine> notice_;
  uint64_t num_dropped_ = 0;
  std::string failure_;
};

// Locks an open log so that has_writer() is true until it is closed. Throws Environment if another
// process has locked it.
void lock_for_writing(int fd, const std::filesystem::path& path);

}  // namespace lockstep::tracking
