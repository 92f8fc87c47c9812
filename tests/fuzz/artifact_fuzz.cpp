// Arbitrary bytes as the manifest and the index of an artifact either yield a consistent value,
// which survives a round trip, or a one-line Environment error. An accepted path stays inside its
// directory.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"
#include "tracking/artifacts/manifest.h"

namespace lockstep {
namespace {

void verify_path(const std::string& path) {
  const auto whole = (std::filesystem::path("/store/x") / path).lexically_normal().string();
  if (tracking::is_artifact_path(path) && whole != "/store/x/" + path) std::abort();
}

template <class Read, class Write>
void verify(std::string_view text, const Read& read, const Write& write) {
  try {
    const auto written = write(read(text, "input"));
    if (write(read(written, "what was written")) != written) std::abort();
  } catch (const Error& error) {
    const std::string message = error.what();
    if (error.kind() != ErrorKind::Environment || !message.starts_with("input: corrupt: ") ||
        message.find('\n') != std::string::npos)
      std::abort();
  }
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  tracking::Artifact artifact{.name = "net", .type = "model", .version = 3, .created = 1.7e9};
  artifact.files = {{"conf/net.json", std::string(64, 'a'), 2}, {"w", std::string(64, 'b'), 4096}};
  artifact.digest = artifact_digest(artifact.files);
  artifact.metadata = {{"epoch", 3}, {"notes", {"a", 0.5, nullptr, true}}};
  artifact.made_by = "mnist-1";
  artifact.used_by = {"eval-1", "eval-2"};
  const tracking::ArtifactIndex index{.versions = {artifact.digest, std::string(64, 'c')},
                                      .aliases = {{"best", 1}, {"latest", 2}}};
  return {manifest_text(artifact), index_text(index), "a/b..c/.d", "../x", "/etc/passwd"};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const std::string text(reinterpret_cast<const char*>(data), size);
  verify(text, tracking::parse_manifest, tracking::manifest_text);
  verify(text, tracking::parse_index, tracking::index_text);
  verify_path(text.substr(0, 200));
  return 0;
}
