#include "tracking/copies/collector_sender.h"

#include <fmt/format.h>

#include "core/bounded_json.h"
#include "core/printable.h"
#include "lockstep/config_value.h"
#include "lockstep/error.h"
#include "tracking/artifacts/sha256.h"

namespace lockstep::tracking {
namespace {

// A request must arrive within 5 s (docs/dashboard_api.md), also on a slow connection.
constexpr size_t kMaxSentBytes = 256u << 10;
constexpr size_t kMaxShownMessage = 300;
constexpr const char* kBytesType = "application/octet-stream";

std::string message_in(const HttpResponse& response) {
  const auto json = parse_json(response.body);
  const auto error = json.is_object() ? json.value("error", Json()) : Json();
  const auto message = error.is_object() ? error.value("message", Json()) : Json();
  return message.is_string() ? ": " + printable(message.get<std::string>(), kMaxShownMessage) : "";
}

}  // namespace

CollectorSender::CollectorSender(const std::filesystem::path& run_dir,
                                 const CollectorAddress& collector)
    : RunSender(run_dir),
      path_("/api/collect/" + percent_encoded(run_dir.filename().string())),
      name_(collector.options.name),
      client_(collector.address, collector.options),
      logs_({.client = client_,
             .path = path_,
             .name = name_,
             .max_request_bytes = kMaxSentBytes,
             .reject = [this](const HttpResponse& response) { require(response); }}) {}

void CollectorSender::require(const HttpResponse& response) const {
  if (response.ok()) return;
  const auto status = response.status;
  const auto problem =
      fmt::format("{} responded with status {}{}", name_, status, message_in(response));
  const bool is_temporary = status == 408 || status == 429 || status >= 500;
  throw is_temporary ? environment_error(problem) : config_error(problem);
}

std::map<std::string, std::string>& CollectorSender::remote() {
  if (remote_) return *remote_;
  const auto response = client_.get(path_);
  require(response);
  const auto json = parse_json(response.body);
  const auto files = json.is_object() ? json.value("files", Json()) : Json();
  if (!files.is_object())
    throw config_error(fmt::format("{} is not a dashboard that receives runs", name_));
  remote_.emplace();
  for (const auto& [name, sum] : files.items())
    if (sum.is_string()) (*remote_)[name] = sum.get<std::string>();
  return *remote_;
}

std::vector<std::string> CollectorSender::remote_files() {
  std::vector<std::string> names;
  for (const auto& [name, sum] : remote()) names.push_back(name);
  return names;
}

// The collector keeps its own tags.
bool CollectorSender::has_file(const std::string& name, const std::string& bytes) {
  const auto sum = remote().find(name);
  return sum != remote().end() && (name == "tags.json" || sum->second == sha256_of(bytes));
}

void CollectorSender::put_file(const std::string& name, const std::string& bytes) {
  const auto sum = sha256_of(bytes);
  require(client_.put(fmt::format("{}/files/{}?sha256={}", path_, percent_encoded(name, true), sum),
                      bytes, kBytesType));
  remote()[name] = sum;
}

void CollectorSender::remove_file(const std::string& name) {
  require(client_.remove(fmt::format("{}/files/{}", path_, percent_encoded(name, true))));
  remote().erase(name);
}

void CollectorSender::end() { require(client_.post(path_ + "/end", "", kBytesType)); }

}  // namespace lockstep::tracking
