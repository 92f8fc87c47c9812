// The summary of a run that is not opened, for `lockstep runs list` and for the dashboard's list,
// filter and run page. Small, because there may be ten thousand. Immutable once created.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "catalog/index/name_table.h"
#include "lockstep/record.h"
#include "lockstep/run_info.h"
#include "tracking/runs/end_facts.h"
#include "tracking/runs/run_tags.h"

namespace lockstep::catalog {

struct MetricTotals {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  uint32_t name = 0;  // in the NameTable
  double last = 0;
  double min = kNone, max = kNone, sum = 0;  // without NaN; min and max are NaN when all values are
  int64_t step = 0;                          // of the last value
  uint64_t count = 0, num_nan = 0;

  double mean() const;  // NaN if there are no numbers
};

struct MediaTotals {
  enum class Kind : uint8_t { Image, Histogram, Table, Clip };  // also RecordPlace

  Kind kind = Kind::Image;
  uint32_t name = 0;
  uint64_t count = 0;
  int64_t first_step = 0, last_step = 0;
};

// One event log.
struct SourceSummary {
  std::string source;  // "rank-0", "node-1"
  bool is_node = false;
  int number = 0;  // of the rank or node
  RunInfo info;
  RunState state = RunState::Lost;
  std::optional<RunEnd> end;
  double updated = 0;  // unix seconds of the latest record
  int64_t step = 0;    // the latest
  double epoch = 0;
  std::vector<MetricTotals> metrics;  // in the order of the log's keys
  std::vector<MediaTotals> media;
  std::vector<std::pair<uint32_t, double>> summary;
  std::vector<Alert> alerts;  // the latest kKeptAlerts
  uint64_t num_alerts = 0, num_texts = 0;
  std::string problem;  // why it could not be read to its end; else empty
};

constexpr size_t kKeptAlerts = 100;

struct FieldValue {
  enum class Type : uint8_t { None, Number, Bool, Text };

  Type type = Type::None;
  double number = 0;  // 0 or 1 of a Bool
  uint32_t text = NameTable::kNone;
};

struct RunSummary {
  std::string id;  // the name of its directory
  std::filesystem::path dir;
  RunInfo written;          // from run.json; without one, named after the directory
  bool is_written = false;  // there is a run.json, and it could be read
  RunInfo info;             // of the job: `written`, completed from its first log
  RunState state = RunState::Lost;
  std::optional<RunEnd> end;     // if it ended
  tracking::EndFacts end_facts;  // recorded facts about its end
  tracking::RunTags tags;
  std::vector<SourceSummary> sources;                   // ranks in order, then nodes
  std::vector<std::pair<uint32_t, FieldValue>> config;  // "optimizer.lr", ascending by number
  std::string job_problem,
      end_problem;  // why run.json or the recorded end cannot be read; else empty
  double updated = 0;
  int64_t step = 0;
  double epoch = 0;
  size_t num_ranks = 0;
  uint64_t num_alerts = 0;
  uint64_t version = 0;  // grows with each change
  uint64_t changed = 0;  // the catalog's number when it changed

  // The metric of the lowest source that has it, or nullptr.
  const MetricTotals* metric(uint32_t name) const;
  // Identity of a rank from its log; `written` without one, or for nullptr (no event log).
  const RunInfo& info_of(const SourceSummary* rank) const;
  // Creation time of the newest rank; unix seconds.
  double started() const;
  // What could not be read, of all its files.
  std::vector<std::string> problems() const;
  // Seconds; of a running run, until now.
  double duration(double now) const;
};

using RunSnapshot = std::shared_ptr<const RunSummary>;

// Leaves of `config` as "optimizer.lr"; lists are texts as JSON has them.
std::vector<std::pair<uint32_t, FieldValue>> flatten_config(const Json& config, NameTable& names);

}  // namespace lockstep::catalog
