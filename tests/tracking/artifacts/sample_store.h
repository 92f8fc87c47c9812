// A store in a temporary directory, and files to publish.
#pragma once

#include <fstream>
#include <string>

#include "core/system/durable_file.h"
#include "tests/temporary_directory.h"
#include "tracking/artifacts/store.h"

namespace lockstep::tracking {

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  make_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

struct SampleStore {
  TemporaryDirectory lab;
  ArtifactStore store{lab / "runs/artifacts", std::chrono::seconds(20)};

  std::filesystem::path path(const std::string& name) const { return lab / name; }

  // A directory with two files.
  std::filesystem::path model(const std::string& weights) const {
    write_text(path("model/weights.bin"), weights);
    write_text(path("model/conf/model.json"), "{}");
    return path("model");
  }
  Artifact publish(const std::string& weights, std::vector<std::string> aliases = {}) const {
    return store.publish(
        {.name = "net", .type = "model", .source = model(weights), .aliases = std::move(aliases)});
  }
};

// "config: ..." of what `call` throws, or "no error".
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(kind_name(error.kind())) + ": " + error.what();
  }
  return "no error";
}

}  // namespace lockstep::tracking
