#include "tracking/runs/stop_request.h"

#include <fmt/format.h>

#include "core/bounded_json.h"
#include "core/printable.h"
#include "core/system/durable_file.h"
#include "lockstep/config_value.h"
#include "lockstep/error.h"
#include "tracking/log/unix_time.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {
namespace {

constexpr size_t kMaxReasonBytes = 1024, kMaxRequestBytes = 64u << 10;

std::filesystem::path stop_request_path(const std::filesystem::path& run_dir) {
  return run_dir / "stop_request.json";
}

}  // namespace

void request_stop(const std::filesystem::path& run_dir, const std::string& reason) {
  if (reason.size() > kMaxReasonBytes)
    throw config_error(fmt::format("the reason has {} bytes; at most {} are allowed", reason.size(),
                                   kMaxReasonBytes));
  if (find_invalid_utf8(reason) != std::string::npos) throw config_error("the reason is not UTF-8");
  if (is_received_run(run_dir))
    throw config_error(fmt::format("run {} trains on another machine: stop it there",
                                   run_dir.filename().string()));
  const Json json = {{"time", unix_now()}, {"reason", reason}};
  write_file_durably(stop_request_path(run_dir), json.dump(2) + "\n");
}

std::optional<StopRequest> read_stop_request(const std::filesystem::path& run_dir) {
  const auto path = stop_request_path(run_dir);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  StopRequest request;
  try {
    const auto json = parse_json(read_file(path, kMaxRequestBytes));
    if (json.is_object() && json.contains("time") && json["time"].is_number())
      request.time = json["time"].get<double>();
    if (json.is_object() && json.contains("reason") && json["reason"].is_string())
      request.reason = json["reason"].get<std::string>();
  } catch (const Error&) {
    return StopRequest{};
  }
  return request;
}

void clear_stop_request(const std::filesystem::path& run_dir) {
  std::error_code error;
  std::filesystem::remove(stop_request_path(run_dir), error);
  if (error)
    throw environment_error(
        fmt::format("cannot remove {}: {}", stop_request_path(run_dir).string(), error.message()));
}

}  // namespace lockstep::tracking
