// Encodes records as payloads of event log frames and decodes them (grammar: docs/event_log.md).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/record.h"
#include "lockstep/run_info.h"
#include "tracking/log/event_frame.h"

namespace lockstep::tracking {

struct ConfigRecord {
  Json config;
};
struct KeyRecord {
  std::string name;  // the next metric's name; ids count 0, 1, 2, ...
};
struct LoggedRow {
  int64_t step = 0;
  double time = 0, epoch = 0;
  std::vector<std::pair<uint32_t, double>> values;  // id of the name, value
};
struct RewindRecord {
  int64_t step = 0;
};
struct SummaryRecord {
  Json values;  // an object
};
struct Heartbeat {
  double time = 0;
};
// Of a later version of the format; to be skipped.
struct UnknownRecord {};

using Record = std::variant<UnknownRecord, RunInfo, ConfigRecord, KeyRecord, LoggedRow, TextLine,
                            RewindRecord, SummaryRecord, RunEnd, Histogram, Image, Table, Alert,
                            ArtifactUse, ConsoleLine, Heartbeat, Clip>;

// nullopt if the payload does not follow the grammar, which is treated as corruption. `num_keys`:
// names declared before. Any bytes are safe.
std::optional<Record> decode_record(const Frame& frame, size_t num_keys);

// The identity of a process that continues the log of `before`, if there is one.
RunInfo continued_from(const std::optional<RunInfo>& before, RunInfo info);

std::string encode(const TextLine& text);
std::string encode(const Histogram& histogram);
std::string encode(const Image& image);
std::string encode(const Clip& clip);
std::string encode(const Table& table);
std::string encode(const Alert& alert);
std::string encode(const ArtifactUse& artifact);
std::string encode(const ConsoleLine& line);

}  // namespace lockstep::tracking
