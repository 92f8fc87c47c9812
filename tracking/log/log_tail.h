// Reads an event log record by record while it is written, from any record on and from segment to
// segment, with bounded memory.
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

// Thread: one thread at a time. The writer is not disturbed.
class LogTail {
 public:
  // Begins behind `offset` bytes, as offset() of an earlier tail was; 0: at the beginning. The file
  // need not exist yet. Records of the same segment before `offset` are read at once for what holds
  // from there on: names, identity, config.
  explicit LogTail(std::filesystem::path path, uint64_t offset = 0);

  // The next record, or nullopt when no whole one has been written yet (or ever will be: a damaged
  // log ends before the damage). Values that a rewind further on takes back are passed over, as far
  // as the log had been written when the tail last caught up. Throws Environment when the file
  // cannot be read.
  std::optional<Record> next();

  // What next() returned so far is settled.
  void keep();
  // Begins again behind what is settled, without reading what comes before it; at first that is
  // where the tail began.
  void go_back();

  // Behind the last record that next() returned, counted over all segments of the log.
  uint64_t offset() const { return offset_; }
  // Bytes that are written and not read yet, zeros behind them included.
  uint64_t backlog() const;

  // What a tail that began at 0 has passed: records of all kinds, those that a rewind takes back
  // included, and their bytes in all segments. Not that of damage, nor of zeros behind a segment.
  uint64_t num_records() const { return num_records_; }
  uint64_t num_good_bytes() const { return file_.is_open() ? offset_ - num_passed_over_ : 0; }
  // Whether something other than zeros follows what it could read of some segment, or the next
  // segment's beginning is damaged. Asked when nobody writes the log any more.
  bool is_damaged() const;

  const std::filesystem::path& path() const { return path_; }
  const std::vector<std::string>& keys() const { return keys_; }
  // As of the last record returned.
  const std::optional<RunInfo>& identity() const { return identity_; }
  const Json& config() const { return config_; }

 private:
  struct Rewind {
    uint64_t offset;  // behind its record
    int64_t step;
  };

  // What holds behind a record.
  struct Place {
    uint32_t segment = 0;
    uint64_t segment_begin = 0, offset = 0;
    uint64_t num_records = 0, num_passed_over = 0;
    bool has_gap = false;
    size_t num_keys = 0;
    std::optional<RunInfo> identity;
    Json config;
  };

  bool open();
  bool has_more();
  void forget_buffer();
  bool go_on();
  bool has_rest() const;
  void skip_segments(uint64_t offset);
  void enter_next();
  std::optional<Record> read();
  std::optional<Record> read_here();
  std::optional<Frame> frame();
  bool fill(size_t wanted);
  void note(const Record& record);
  void look_for_rewinds();
  bool is_taken_back(const Record& record) const;

  std::filesystem::path path_;
  FileDescriptor file_;
  uint32_t segment_ = 0;             // whose file it is
  uint64_t segment_begin_ = 0;       // sizes of the segments before it
  std::optional<OpenSegment> next_;  // once it is known, this one is final
  uint64_t offset_;
  uint64_t num_records_ = 0, num_passed_over_ = 0;
  bool has_gap_ = false;  // damage before a segment that was entered
  std::string buffer_;    // the bytes of the segment from buffer_begin_ on
  uint64_t buffer_begin_ = 0;
  size_t piece_;            // how much is read at once: little of a log that grows slowly
  uint64_t looked_to_ = 0;  // rewinds before this offset are known
  std::vector<Rewind> rewinds_;
  std::vector<std::string> keys_;
  std::optional<RunInfo> identity_;
  Json config_;
  Place kept_;
};

}  // namespace lockstep::tracking
