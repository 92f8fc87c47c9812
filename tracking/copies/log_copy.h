// Copies of event logs on another machine, sent byte for byte while the logs are written. The size
// of a copy is the position to continue at, so either side can be restarted at any point. Used
// between the nodes of a job (tracking/agent/forwarding.h) and to collect runs
// (tracking/copies/run_receiver.h).
//
// Protocol: HTTP, below a prefix.
//   GET  logs/NAME            {"size": bytes of the copy, "begin_crc", "end_crc"}
//   POST logs/NAME?offset=N   appends the body and returns the same; 409 if N is not the size
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace lockstep::tracking {

// The receiver's copy of a log. `begin_crc`, `end_crc`: CRC-32C of its first and of its last
// kComparedBytes, which show whether it is a copy of the same log.
struct LogCopy {
  uint64_t size = 0;
  uint32_t begin_crc = 0, end_crc = 0;

  bool operator==(const LogCopy&) const = default;
};
inline constexpr uint64_t kComparedBytes = 4096;
nlohmann::json to_json(const LogCopy& copy);
std::optional<LogCopy> log_copy_from_json(const nlohmann::json& json);

// The first `size` bytes of an open log. Throws Environment if it cannot be read or has fewer.
LogCopy measure_copy(int file, uint64_t size);

// The maximum body size of a request between nodes.
inline constexpr size_t kMaxForwardedBytes = 1u << 20;

// Whether `name` is a valid file name of an event log or of one of its later segments.
bool is_event_log_name(const std::string& name);

}  // namespace lockstep::tracking
