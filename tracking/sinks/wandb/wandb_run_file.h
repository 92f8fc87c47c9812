// Writes the records of one entry to its .wandb file, and the files that they reference:
//
//   offline-run-20261121_060309-ID/run-ID.wandb         ; input of `wandb sync`
//   offline-run-20261121_060309-ID/files/media/...      ; images and tables
//
// Every row is a history line with a unique, increasing "_step", because W&B cannot delete lines.
// The columns "step" and "epoch" hold its position in training; charts use "step" as their axis.
// Metrics below "system/" are system metrics.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lockstep/sink.h"
#include "tracking/sinks/wandb/wandb_file.h"
#include "tracking/sinks/wandb/wandb_records.h"

namespace lockstep::tracking {

class WandbRunFile {
 public:
  // Creates the run's directory in `root`. `state` is the result of flush(), or null.
  WandbRunFile(const std::filesystem::path& root, WandbRun run, const Json& config,
               const Json& state);

  void scalars(const ScalarRow& row);
  void console(double time, bool is_error, std::string_view line);
  void histogram(const Histogram& histogram);
  void image(const Image& image);
  void clip(const Clip& clip);
  void table(const Table& table);
  void alert(const Alert& alert);
  // `files` are local. Without files the artifact is not uploaded, only named in the run's config
  // at W&B: an artifact that the run used, or that the store does not have.
  void artifact(const ArtifactUse& artifact, std::vector<WandbArtifactFile> files);
  void summary(const Json& values);
  void finish(const RunEnd& end);

  // Writes all pending records. The state never includes the exit record: a resumed run overwrites
  // it. Throws Environment.
  Json flush();

  const std::filesystem::path& path() const { return file_->path(); }

 private:
  void open(const std::filesystem::path& root, const Json& config, const Json& state);
  void put(WandbRecord kind, const ProtobufWriter& body);
  void row(int64_t step, double time, double epoch, const std::vector<WandbItem>& items);
  // One JSON value at a step.
  void value(const Moment& at, const std::string& json);
  void define(const std::string& key);
  void write_summary();
  // Writes a file below files/ and the record that requests its upload.
  void store(const std::string& path, const std::string& content);
  std::string media_path(const char* folder, const std::string& name, const std::string& digest,
                         const char* ending) const;
  Json state() const;

  WandbRun run_;
  std::unique_ptr<WandbFile> file_;
  int64_t num_records_ = 0, num_rows_ = 0;
  uint32_t config_sum_ = 0;
  double last_time_ = 0;
  std::set<std::string> defined_;               // keys whose axis is defined
  std::map<std::string, std::string> summary_;  // changes since the last flush(): key to JSON
  Json state_at_end_;                           // null until finish()
};

}  // namespace lockstep::tracking
