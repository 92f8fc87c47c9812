// One event log, read incrementally: totals for the list of runs and, for an opened run, its values
// by column (in the spool) and the positions of its images, tables, ...
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "catalog/index/column_spool.h"
#include "catalog/index/log_record.h"
#include "catalog/index/run_summary.h"
#include "tracking/log/log_tail.h"

namespace lockstep::catalog {

// The values of one metric in one log, in the order logged. All vectors have the same length.
struct Curve {
  std::vector<double> step, time, epoch;  // only the requested ones are filled
  std::vector<double> value;
  std::vector<double> smooth;  // see add_smooth()
};

enum class CurveAxis { Step, Epoch, Time };

struct CurveParts {
  bool step = false, time = false, epoch = false;
};

// A record that is read from the log again when it is viewed.
struct RecordPlace {
  enum class Kind : uint8_t { Image, Histogram, Table, Clip, Text };

  Kind kind = Kind::Image;
  uint8_t level = 0;  // of a Text
  uint32_t name = NameTable::kNone;
  int64_t step = 0;
  double time = 0, epoch = 0;
  uint64_t begin = 0, end = 0;  // the record is the last one within these bytes of the log
};

// What a list of clips shows, without their bytes.
struct ClipHead {
  std::string type, caption;  // as in Clip
  uint64_t num_bytes = 0;     // of the file
};

// Identifies a log.
struct LogName {
  std::filesystem::path path;
  bool is_node = false;
  int number = 0;

  std::string source() const;  // "rank-0", "node-1"
};

// Thread: one at a time; const calls may run concurrently.
class LogIndex {
 public:
  // `spool` nullptr: totals only. Both references must outlive it.
  LogIndex(LogName log, NameTable& names, ColumnSpool* spool);
  ~LogIndex();
  LogIndex(const LogIndex&) = delete;
  LogIndex& operator=(const LogIndex&) = delete;

  // Reads everything appended since the last call; starts over if the log was replaced or rewound.
  // Returns whether anything changed. Read errors are reported in the summary. Throws Environment
  // if the spool cannot be written.
  bool catch_up();

  const SourceSummary& summary() const { return summary_; }
  const Json& config() const { return config_; }
  bool has_columns() const { return spool_ != nullptr; }
  const LogName& name() const { return name_; }

  // Empty if the log does not have the metric. Requires has_columns().
  Curve read(uint32_t metric, CurveParts parts) const;
  const std::vector<RecordPlace>& places() const { return places_; }
  // nullptr if `place` is not one of a clip in places().
  const ClipHead* clip_head(const RecordPlace& place) const;
  // What ranks printed, by rank and stream. Requires has_columns().
  const std::vector<RecordedConsole>& consoles() const { return consoles_; }
  // Reads the record from the log. nullopt if it is not there (any more).
  std::optional<tracking::Record> read_record(const RecordPlace& place) const;

 private:
  struct ColumnPlace {
    uint32_t key = 0, count = 0;
    uint64_t offset = 0;  // within the block
    bool dense = false;   // a value in every row: no row numbers
  };
  struct Block {
    uint64_t offset = 0, num_bytes = 0;  // in the spool
    uint32_t num_rows = 0;
    std::vector<ColumnPlace> columns;  // ascending by key
  };
  struct OpenColumn {
    std::vector<uint32_t> rows;
    std::vector<double> values;
  };
  struct OpenBlock {  // not in the spool yet
    std::vector<int64_t> step;
    std::vector<double> time, epoch;
    std::vector<OpenColumn> columns;  // by key
    size_t num_values = 0;
  };

  void restart();
  bool was_replaced();
  void read_appended();
  void finish_state(bool alive);
  bool take(tracking::Record&& record, uint64_t begin);  // false: log rewound, read it again
  void note_step(int64_t step);
  void take_row(const tracking::LoggedRow& row);
  void take_media(MediaTotals::Kind kind, const Moment& at, uint64_t begin);
  void take_clip(const Clip& clip, uint64_t begin);
  void take_text(const TextLine& text, uint64_t begin);
  void take_console(const ConsoleLine& line, uint64_t begin);
  void declare_metrics(size_t count);
  void add_total(uint32_t key, double value, int64_t step);
  void flush_block();
  void read_block(const Block& block, const ColumnPlace& column, CurveParts parts,
                  Curve& curve) const;
  void read_open(uint32_t key, CurveParts parts, Curve& curve) const;
  std::optional<uint32_t> key_of(uint32_t metric) const;

  LogName name_;
  NameTable& names_;
  ColumnSpool* spool_;
  std::unique_ptr<tracking::LogTail> tail_;
  uint64_t inode_ = 0;
  SourceSummary summary_;
  Json config_;
  std::optional<int64_t> max_step_;  // of records that a rewind may undo
  bool has_rows_ = false;
  std::vector<Block> blocks_;
  OpenBlock open_;
  std::vector<RecordPlace> places_;
  std::unordered_map<uint64_t, ClipHead> clips_;  // by the end of the record
  std::vector<RecordedConsole> consoles_;
  std::unordered_map<uint64_t, size_t> media_;  // kind and name to the place in summary_.media
};

}  // namespace lockstep::catalog
