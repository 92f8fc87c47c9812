#include "tracking/copies/run_sender.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/bounded_json.h"
#include "core/printable.h"
#include "core/system/durable_file.h"
#include "lockstep/config_value.h"
#include "lockstep/error.h"
#include "tracking/artifacts/sha256.h"
#include "tracking/copies/run_files.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {
namespace {

namespace fs = std::filesystem;

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

// Describes the end of a run; sent after the logs, so that the run does not look over before.
bool is_outcome(const std::string& name) { return is_removable_run_file(name); }

std::vector<fs::path> all_logs(const fs::path& run_dir) {
  auto logs = rank_logs(run_dir);
  std::ranges::copy(node_logs(run_dir), std::back_inserter(logs));
  return logs;
}

}  // namespace

RunSender::RunSender(fs::path run_dir, const CollectorAddress& collector)
    : run_dir_(std::move(run_dir)),
      path_("/api/collect/" + percent_encoded(run_dir_.filename().string())),
      name_(collector.options.name),
      client_(collector.address, collector.options),
      logs_({.client = client_,
             .path = path_,
             .name = name_,
             .max_request_bytes = kMaxSentBytes,
             .reject = [this](const HttpResponse& response) { require(response); }}) {}

void RunSender::require(const HttpResponse& response) const {
  if (response.ok()) return;
  const auto status = response.status;
  const auto problem =
      fmt::format("{} responded with status {}{}", name_, status, message_in(response));
  const bool is_temporary = status == 408 || status == 429 || status >= 500;
  throw is_temporary ? environment_error(problem) : config_error(problem);
}

void RunSender::read_remote_files() {
  if (remote_) return;
  const auto response = client_.get(path_);
  require(response);
  const auto json = parse_json(response.body);
  const auto files = json.is_object() ? json.value("files", Json()) : Json();
  if (!files.is_object())
    throw config_error(fmt::format("{} is not a dashboard that receives runs", name_));
  remote_.emplace();
  for (const auto& [name, sum] : files.items())
    if (sum.is_string()) (*remote_)[name] = sum.get<std::string>();
}

bool RunSender::is_same_file(const std::string& name) {
  const auto sum = remote_->find(name);
  if (sum == remote_->end()) return false;
  if (name == "tags.json") return true;  // the collector keeps its own tags
  Sha256 local;
  local.add(read_file(run_dir_ / name, kMaxRunFileBytes));
  return local.hex() == sum->second;
}

void RunSender::send_file(const std::string& name) {
  const FileTime now{fs::last_write_time(run_dir_ / name), fs::file_size(run_dir_ / name)};
  if (const auto seen = seen_.find(name); seen != seen_.end() && seen->second == now) return;
  if (!is_same_file(name)) {
    const auto bytes = read_file(run_dir_ / name, kMaxRunFileBytes);
    Sha256 sum;
    sum.add(bytes);
    const auto hex = sum.hex();
    require(
        client_.put(fmt::format("{}/files/{}?sha256={}", path_, percent_encoded(name, true), hex),
                    bytes, kBytesType));
    (*remote_)[name] = hex;
  }
  seen_[name] = now;
}

void RunSender::remove_files_that_are_gone() {
  const auto names = run_files(run_dir_);
  for (auto it = remote_->begin(); it != remote_->end();) {
    const bool is_gone =
        is_removable_run_file(it->first) && std::ranges::find(names, it->first) == names.end();
    if (is_gone)
      require(client_.remove(fmt::format("{}/files/{}", path_, percent_encoded(it->first, true))));
    if (is_gone) seen_.erase(it->first);
    it = is_gone ? remote_->erase(it) : std::next(it);
  }
}

void RunSender::send_all(const std::vector<fs::path>& logs, bool removes) {
  try {
    read_remote_files();
    if (removes) remove_files_that_are_gone();
    const auto names = run_files(run_dir_);
    for (const auto& name : names)
      if (!is_outcome(name)) send_file(name);
    for (const auto& log : logs) logs_.send(log);
    for (const auto& name : names)
      if (is_outcome(name)) send_file(name);
  } catch (const fs::filesystem_error& error) {  // a file was replaced or removed meanwhile
    throw environment_error(error.what());
  }
}

void RunSender::send() { send_all(all_logs(run_dir_), true); }

void RunSender::send_part(const std::vector<fs::path>& logs) { send_all(logs, false); }

void RunSender::end() { require(client_.post(path_ + "/end", "", kBytesType)); }

bool RunSender::is_sent() {
  read_remote_files();
  for (const auto& name : run_files(run_dir_))
    if (!is_same_file(name)) return false;
  try {
    return std::ranges::all_of(all_logs(run_dir_),
                               [this](const auto& log) { return logs_.missing_bytes(log) == 0; });
  } catch (const Error&) {
    return false;  // e.g. a log that differs: send() reports it
  }
}

}  // namespace lockstep::tracking
