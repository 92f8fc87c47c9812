// Files that are to become artifacts of a run, and what our records look like as such.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "lockstep/record.h"
#include "tracking/artifacts/store.h"
#include "tracking/sinks/mlflow/mlflow_client.h"

namespace lockstep::tracking {

// What mlflow.load_table() and the evaluation view read: {"columns": [...], "data": [[...], ...]}.
std::string mlflow_table(const Table& table);
// The same with the columns from, to and count; a row per bin.
std::string mlflow_histogram(const Histogram& histogram);

// Putting the same path again replaces the artifact, so it may be repeated.
class MlflowArtifacts {
 public:
  void add(const std::string& path, std::string content, const std::string& type);
  void add_file(const std::string& path, const std::filesystem::path& file);
  // Its files, as artifacts/NAME/vN/...
  void add_version(const ArtifactStore& store, const ArtifactUse& artifact);

  // Puts all of them, and forgets them. Returns why one or more were not taken, if so. Throws what
  // the client throws.
  std::optional<std::string> send(MlflowClient& client, const MlflowRun& run);

 private:
  struct Content {
    std::string content, type;
    std::filesystem::path file;  // empty: `content`
  };
  std::map<std::string, Content> artifacts_;
  std::optional<std::string> note_;
};

}  // namespace lockstep::tracking
