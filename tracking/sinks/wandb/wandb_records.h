// Serializes the records of a .wandb file. Field numbers are those of W&B's wandb_internal.proto
// (wandb 0.31); none has changed its meaning since 0.17.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/config_value.h"
#include "lockstep/record.h"
#include "lockstep/run_info.h"
#include "tracking/sinks/protobuf_writer.h"

namespace lockstep::tracking {

// The field of `Record` that holds the body.
enum class WandbRecord {
  History = 2,
  Summary = 3,
  Config = 5,
  Files = 6,
  Stats = 7,
  Artifact = 8,
  Alert = 10,
  Metric = 12,
  Console = 13,
  Run = 17,
  Exit = 18,
  Header = 21,
  Preempting = 23,
};

// A key and its value as JSON. Both are valid UTF-8 (wandb_text.h).
struct WandbItem {
  std::string key, json;
};

// Identity of a run at W&B. Empty fields are not written; W&B then uses its defaults.
struct WandbRun {
  std::string id, entity, project, group, job_type, name, notes, host;
  std::vector<std::string> tags;
  double started = 0;  // unix seconds
};

// Wraps `body` in a record; `number` counts 1, 2, 3, ... in the file.
std::string wandb_record(int64_t number, WandbRecord kind, const ProtobufWriter& body);

ProtobufWriter wandb_header();
ProtobufWriter wandb_run(const WandbRun& run, const Json& config);
ProtobufWriter wandb_config(const Json& config);
ProtobufWriter wandb_history(int64_t step, const std::vector<WandbItem>& items);
ProtobufWriter wandb_summary(const std::vector<WandbItem>& items);
ProtobufWriter wandb_stats(double time, const std::vector<WandbItem>& items);
// The metric's chart has the column "step" as its axis.
ProtobufWriter wandb_metric(std::string_view key);
ProtobufWriter wandb_console(double time, bool is_error, std::string_view line);
ProtobufWriter wandb_alert(const Alert& alert);
// A file below files/, to be uploaded immediately.
ProtobufWriter wandb_files(std::string_view path);
ProtobufWriter wandb_exit(const RunEnd& end, double runtime_s);

// One file of an artifact.
struct WandbArtifactFile {
  std::string path;    // in the artifact
  std::string md5;     // of its content, base64
  int64_t size = 0;    // bytes
  std::string source;  // absolute local path
};

struct WandbArtifact {
  std::string run_id, entity, project, type, name;
  std::vector<std::string> aliases;
  Json metadata = Json::object();
  std::vector<WandbArtifactFile> files;
  std::string client_id, sequence_id;  // 128 of [a-z0-9] each (wandb_client_id())
};
ProtobufWriter wandb_artifact(const WandbArtifact& artifact);

// The client-side id of an artifact, before the server assigns one. Deterministic in `text`.
std::string wandb_client_id(const std::string& text);

}  // namespace lockstep::tracking
