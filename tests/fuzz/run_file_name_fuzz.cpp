// Arbitrary text as the name of a file that a collector receives: an accepted one is inside the run
// directory; and as the content of a file or the state of a copy: never crashes.

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/fuzz/seeds.h"
#include "tracking/copies/log_copy.h"
#include "tracking/copies/run_files.h"

std::vector<std::string> lockstep::fuzz_seeds() {
  return {"run.json",           "ends/launcher-00000.json",
          "ends/../../x.json",  "rank-00003.2.lsev",
          "node-00000.lsev",    "config.yaml",
          "model: {name: mlp}", R"({"size": 1, "begin_crc": 2, "end_crc": 3})"};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace fs = std::filesystem;
  using namespace lockstep::tracking;
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (is_event_log_name(text) && text.find_first_of(std::string("/\0", 2)) != std::string::npos)
    std::abort();
  if (is_run_file_name(text)) {
    const auto path = fs::path(text);
    if (path.is_absolute() || path.lexically_normal() != path) std::abort();
    for (const auto& part : path)
      if (part == ".." || part.native().find('\0') != std::string::npos) std::abort();
  }
  is_run_file_content("config.yaml", text);
  is_run_file_content("run.json", text);
  const auto copy = log_copy_from_json(nlohmann::json::parse(text, nullptr, false));
  if (copy && log_copy_from_json(to_json(*copy)) != copy) std::abort();
  return 0;
}
