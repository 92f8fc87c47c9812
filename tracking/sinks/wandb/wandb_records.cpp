#include "tracking/sinks/wandb/wandb_records.h"

#include <algorithm>
#include <cmath>

#include "lockstep/version.h"
#include "tracking/artifacts/sha256.h"
#include "tracking/sinks/wandb/wandb_text.h"

namespace lockstep::tracking {
namespace {

// As in W&B's programs: one alert per title and minute.
constexpr int64_t kWandbAlertPauseMs = 60'000;
constexpr int kKilledBySignal = 128;  // the convention of shells

void add_text(ProtobufWriter& message, int field, std::string_view text) {
  if (!text.empty()) message.bytes(field, wandb_text(text));
}

void add_time(ProtobufWriter& message, int field, double time) {
  const auto seconds = std::floor(time);
  ProtobufWriter timestamp;
  timestamp.int64(1, static_cast<int64_t>(seconds));
  timestamp.int64(2, static_cast<int64_t>((time - seconds) * 1e9));
  message.message(field, timestamp);
}

// The key is a single name, even if it contains dots.
void add_nested_items(ProtobufWriter& message, int field, const std::vector<WandbItem>& items) {
  for (const auto& [key, json] : items) {
    ProtobufWriter item;
    item.bytes(2, key);
    item.bytes(16, json);
    message.message(field, item);
  }
}

void add_flag(ProtobufWriter& message, int field, int member) {
  ProtobufWriter options;
  options.varint(member, 1);
  message.message(field, options);
}

int exit_code_of(const RunEnd& end) {
  if (end.state == RunState::Finished) return end.exit_code;
  if (end.state == RunState::Killed && end.signal) return kKilledBySignal + *end.signal;
  return end.exit_code != 0 ? end.exit_code : 1;
}

const char* wandb_level(TextLevel level) {
  switch (level) {
    case TextLevel::Error: return "ERROR";
    case TextLevel::Warning: return "WARN";
    default: return "INFO";
  }
}

}  // namespace

std::string wandb_record(int64_t number, WandbRecord kind, const ProtobufWriter& body) {
  ProtobufWriter record;
  record.int64(1, number);
  record.message(static_cast<int>(kind), body);
  if (kind == WandbRecord::Run || kind == WandbRecord::Exit) {
    // wandb-core 0.27 uploads a file only if these two request a response.
    ProtobufWriter control;
    control.bytes(4, kind == WandbRecord::Run ? "lockstep-run" : "lockstep-exit");
    record.message(16, control);
  }
  return record.take();
}

ProtobufWriter wandb_header() {
  ProtobufWriter version, header;
  version.bytes(1, std::string("lockstep-") + kVersion);
  version.bytes(2, "0.70.0");
  header.message(1, version);
  return header;
}

ProtobufWriter wandb_config(const Json& config) {
  ProtobufWriter record;
  const auto add = [&](std::string_view key, const Json& value) {
    ProtobufWriter item;
    item.bytes(1, wandb_text(key.starts_with("_wandb") ? "config/" + std::string(key) : key));
    item.bytes(16, wandb_json(value));
    record.message(1, item);
  };
  if (!config.is_object()) {
    add("config", config);
    return record;
  }
  for (const auto& [key, value] : config.items()) add(key, value);
  return record;
}

ProtobufWriter wandb_run(const WandbRun& run, const Json& config) {
  ProtobufWriter record;
  add_text(record, 1, run.id);
  add_text(record, 2, run.entity);
  add_text(record, 3, run.project);
  record.message(4, wandb_config(config));
  add_text(record, 6, run.group);
  add_text(record, 7, run.job_type);
  add_text(record, 8, run.name);
  add_text(record, 9, run.notes);
  for (const auto& tag : run.tags) add_text(record, 10, tag);
  add_text(record, 13, run.host);
  add_time(record, 17, run.started);
  return record;
}

ProtobufWriter wandb_history(int64_t step, const std::vector<WandbItem>& items) {
  ProtobufWriter record, number;
  add_nested_items(record, 1, items);
  number.int64(1, step);
  record.message(2, number);
  return record;
}

ProtobufWriter wandb_summary(const std::vector<WandbItem>& items) {
  ProtobufWriter record;
  add_nested_items(record, 1, items);
  return record;
}

ProtobufWriter wandb_stats(double time, const std::vector<WandbItem>& items) {
  ProtobufWriter record;
  add_time(record, 2, time);
  for (const auto& [key, json] : items) {
    ProtobufWriter item;
    item.bytes(1, key);
    item.bytes(16, json);
    record.message(3, item);
  }
  return record;
}

ProtobufWriter wandb_metric(std::string_view key) {
  ProtobufWriter record;
  record.bytes(1, key);
  if (key != "step") record.bytes(4, "step");
  add_flag(record, 6, 3);
  return record;
}

ProtobufWriter wandb_console(double time, bool is_error, std::string_view line) {
  ProtobufWriter record;
  record.varint(1, is_error ? 0 : 1);
  add_time(record, 2, time);
  record.bytes(3, wandb_text(line) + "\n");
  return record;
}

ProtobufWriter wandb_alert(const Alert& alert) {
  ProtobufWriter record;
  record.bytes(1, wandb_text(alert.title));
  record.bytes(2, wandb_text(alert.text));
  record.bytes(3, wandb_level(alert.level));
  record.int64(4, kWandbAlertPauseMs);
  return record;
}

ProtobufWriter wandb_files(std::string_view path) {
  ProtobufWriter file, record;
  file.bytes(1, path);
  record.message(1, file);
  return record;
}

ProtobufWriter wandb_exit(const RunEnd& end, double runtime_s) {
  ProtobufWriter record;
  record.int64(1, exit_code_of(end));
  record.int64(2, static_cast<int64_t>(std::max(runtime_s, 0.0)));
  // The end is unknown: the server marks the run as crashed once it stops sending.
  if (end.state == RunState::Lost) record.varint(3, 1);
  return record;
}

ProtobufWriter wandb_artifact(const WandbArtifact& artifact) {
  ProtobufWriter layout, manifest, record;
  layout.bytes(1, "storageLayout");
  layout.bytes(2, "\"V2\"");
  manifest.int64(1, 1);
  manifest.bytes(2, "wandb-storage-policy-v1");
  manifest.message(3, layout);
  for (const auto& file : artifact.files) {
    ProtobufWriter entry;
    entry.bytes(1, wandb_text(file.path));
    entry.bytes(2, file.md5);
    entry.int64(4, file.size);
    entry.bytes(6, wandb_text(file.source));
    entry.varint(8, 1);  // no second copy in the user's cache
    manifest.message(4, entry);
  }
  add_text(record, 1, artifact.run_id);
  add_text(record, 2, artifact.project);
  add_text(record, 3, artifact.entity);
  add_text(record, 4, artifact.type);
  add_text(record, 5, artifact.name);
  // As in W&B's programs, without NaN, which the server rejects here.
  record.bytes(8, artifact.metadata.dump(-1, ' ', false, Json::error_handler_t::replace));
  for (const auto& alias : artifact.aliases) add_text(record, 11, alias);
  record.message(12, manifest);
  record.varint(14, 1);
  record.bytes(15, artifact.client_id);
  record.bytes(16, artifact.sequence_id);
  return record;
}

std::string wandb_client_id(const std::string& text) {
  return sha256_of(text + "/0") + sha256_of(text + "/1");  // 64 hexadecimal digits each
}

}  // namespace lockstep::tracking
