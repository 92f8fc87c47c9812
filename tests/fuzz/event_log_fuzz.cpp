// The reader of event logs on arbitrary bytes: first unchanged, then as frames with valid header
// and checksum, so that the payload parsers are reached.
#include <cstring>
#include <string>

#include "core/system/crc32c.h"
#include "lockstep/error.h"
#include "tests/fuzz/memory_file.h"
#include "tracking/log/event_frame.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/log/log_tail.h"

namespace {

// The incremental reader of a growing log, with save and restore of its position.
void walk(std::string_view content) {
  using namespace lockstep;
  static MemoryFile file;
  file.write(content);
  try {
    tracking::LogTail tail(file.path());
    while (tail.next()) continue;
    tracking::LogTail(file.path(), tail.offset()).next();
    tail.roll_back();
    while (tail.next()) tail.commit();
  } catch (const Error&) {
    // not an event log
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  tracking::decode_event_log(input);
  std::string log(tracking::kEventLogMagic);
  log.append(reinterpret_cast<const char*>(&tracking::kEventLogVersion),
             sizeof(tracking::kEventLogVersion))
      .append(4, '\0');
  // Input as chunks: one byte of length, then type and payload.
  for (size_t at = 0; at + 1 < size;) {
    const auto length = static_cast<uint32_t>(std::min<size_t>(1 + data[at], size - at - 1));
    const auto checksum = crc32c(data + at + 1, length);
    log.append(reinterpret_cast<const char*>(&length), 4)
        .append(reinterpret_cast<const char*>(&checksum), 4);
    log.append(input.substr(at + 1, length));
    at += 1 + length;
  }
  tracking::decode_event_log(log);
  for (const auto content : {input, std::string_view(log)}) walk(content);
  return 0;
}
