// Reads an event log record by record while it is written, starting at any record, across segments,
// in bounded memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/system/file_descriptor.h"
#include "tracking/log/event_log_segment.h"
#include "tracking/log/record_codec.h"

namespace lockstep::tracking {

// Thread: one at a time. Does not disturb the writer.
class LogTail {
 public:
  // Starts at `offset`, the offset() of an earlier tail, or 0. The file need not exist yet. Reads
  // the earlier records of the same segment immediately, for the state that applies: names,
  // identity, config.
  explicit LogTail(std::filesystem::path path, uint64_t offset = 0);

  // The next record, or nullopt if no complete one has been written yet (or ever will be: a corrupt
  // log ends at the corruption). Skips values that a later rewind replaces, as far as the log had
  // been written when the tail last caught up. Throws Environment if the file cannot be read.
  std::optional<Record> next();

  // Commits the records that next() returned so far.
  void commit();
  // Returns to the last commit, or to where the tail started, without reading earlier records.
  void roll_back();

  // After the last record that next() returned, counted over all segments of the log.
  uint64_t offset() const { return offset_; }
  // Bytes written and not read yet, including trailing zeros.
  uint64_t backlog() const;

  // For a tail that started at 0: the records of all kinds that it read, including those that a
  // rewind replaces, and their bytes in all segments. Excludes corrupt bytes and trailing zeros of
  // a segment.
  uint64_t num_records() const { return num_records_; }
  uint64_t num_good_bytes() const { return file_.is_open() ? offset_ - num_skipped_ : 0; }
  // Whether nonzero bytes follow the last valid record of a segment, other than a record that a
  // killed process did not finish, or the start of the next segment is corrupt. Valid when no
  // process writes the log any more.
  bool is_corrupt() const;

  const std::filesystem::path& path() const { return path_; }
  const std::vector<std::string>& keys() const { return keys_; }
  // As of the last record returned.
  const std::optional<RunInfo>& identity() const { return identity_; }
  const Json& config() const { return config_; }

 private:
  struct Rewind {
    uint64_t offset;  // after its record
    int64_t step;
  };

  // The state after a record.
  struct Position {
    uint32_t segment = 0;
    uint64_t segment_begin = 0, offset = 0;
    uint64_t num_records = 0, num_skipped = 0;
    bool has_gap = false;
    size_t num_keys = 0;
    std::optional<RunInfo> identity;
    Json config;
  };

  bool open();
  bool has_more();
  void release_buffer();
  bool advance();
  bool has_rest() const;
  void skip_segments(uint64_t offset);
  void enter_next();
  std::optional<Record> read();
  std::optional<Record> read_here();
  std::optional<Frame> frame();
  bool fill(size_t wanted);
  void note(const Record& record);
  void scan_for_rewinds();
  bool is_rewound(const Record& record) const;

  std::filesystem::path path_;
  FileDescriptor file_;
  uint32_t segment_ = 0;             // the one that is open
  uint64_t segment_begin_ = 0;       // sizes of the segments before it
  std::optional<OpenSegment> next_;  // if set, this one is final
  uint64_t offset_;
  uint64_t num_records_ = 0, num_skipped_ = 0;
  bool has_gap_ = false;  // corruption before a segment that was entered
  std::string buffer_;    // the bytes of the segment from buffer_begin_ on
  uint64_t buffer_begin_ = 0;
  size_t read_size_;         // small for a log that grows slowly
  uint64_t scanned_to_ = 0;  // rewinds before this offset are known
  std::vector<Rewind> rewinds_;
  std::vector<std::string> keys_;
  std::optional<RunInfo> identity_;
  Json config_;
  Position committed_;
};

}  // namespace lockstep::tracking
