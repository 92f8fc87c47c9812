// Sends a run directory into a bucket, s3://bucket/prefix/RUN/, from where BucketRuns
// (tracking/copies/bucket_runs.h) reads it: files under their names, event logs in pieces
// (tracking/copies/log_pieces.h). Logs are written before the files about the outcome, which are
// removed first: a kill at any moment leaves a run that can be read.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/store/object_folder.h"
#include "tracking/copies/run_sender.h"

namespace lockstep::tracking {

class BucketSender final : public RunSender {
 public:
  // `folder`: of the run.
  BucketSender(const std::filesystem::path& run_dir, std::unique_ptr<formats::ObjectFolder> folder);

 private:
  std::vector<std::string> remote_files() override;
  bool has_file(const std::string& name, const std::string& bytes) override;
  void put_file(const std::string& name, const std::string& bytes) override;
  void remove_file(const std::string& name) override;
  LogSender& logs() override { return logs_; }

  std::map<std::string, formats::ObjectInfo>& remote();

  const std::unique_ptr<formats::ObjectFolder> folder_;
  LogSender logs_;
  std::optional<std::map<std::string, formats::ObjectInfo>> remote_;  // by name, without logs
};

}  // namespace lockstep::tracking
