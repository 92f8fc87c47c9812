#include <stdlib.h>

#include <filesystem>

#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"
#include "tests/tracking/sample_log.h"
#include "tracking/log/event_frame.h"
#include "tracking/log/event_log_segment.h"

namespace lockstep {
namespace {

std::string sample_log() {
  auto directory = (std::filesystem::temp_directory_path() / "lockstep-fuzz-XXXXXX").string();
  if (!mkdtemp(directory.data())) throw errno_error("cannot create " + directory);
  const auto path = std::filesystem::path(directory) / "log";
  tracking::write_sample_log(path);
  const auto content = read_file(path);
  std::filesystem::remove_all(directory);
  return content;
}

// The frames as chunks for the target: a length byte, then type and payload.
std::string chunks_of(const std::string& log) {
  std::string chunks;
  tracking::FrameCursor cursor(log);
  while (const auto frame = cursor.next()) {
    if (frame->payload.size() > 255) continue;
    chunks += static_cast<char>(frame->payload.size());
    chunks += static_cast<char>(frame->type);
    chunks += frame->payload;
  }
  return chunks;
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  const auto log = sample_log();
  tracking::FrameCursor cursor(log);
  while (cursor.next()) continue;
  const auto beginning = tracking::encode_beginning(
      1, {.info = tracking::sample_info(), .config = {{"lr", 0.1}}, .keys = {"a", "b"}});
  return {log.substr(0, cursor.offset()), log.substr(0, cursor.offset() + 64), chunks_of(log),
          beginning, chunks_of(beginning)};
}

}  // namespace lockstep
