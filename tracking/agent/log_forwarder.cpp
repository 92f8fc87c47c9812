#include "tracking/agent/log_forwarder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/bounded_json.h"
#include "core/http/http_client.h"
#include "core/printable.h"
#include "lockstep/error.h"
#include "tracking/agent/run_entries.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {
namespace {

constexpr auto kForwardInterval = std::chrono::milliseconds(200);
constexpr auto kMaxForwardBackoff = std::chrono::seconds(10);
constexpr auto kForwardTimeout = std::chrono::seconds(10);
constexpr const char* kReceiverName = "the tracking agent of rank 0's node";

HttpOptions forward_options(int node_rank, const std::string& token) {
  HttpOptions options;
  options.name = kReceiverName;
  options.timeout = kForwardTimeout;
  options.headers = {{"Authorization", "Bearer " + token},
                     {"Lockstep-Node", std::to_string(node_rank)}};
  return options;
}

void reject_forwarding(const HttpResponse& response) {
  if (response.status == 401)
    throw config_error(fmt::format("{} rejected the token of this job", kReceiverName));
  const auto json = parse_json(response.body);
  const bool has_problem =
      json.is_object() && json.contains("problem") && json["problem"].is_string();
  throw environment_error(fmt::format(
      "{} responded with status {}{}{}", kReceiverName, response.status, has_problem ? ": " : "",
      has_problem ? printable(json["problem"].get<std::string>(), 300) : ""));
}

}  // namespace

LogForwarder::LogForwarder(std::filesystem::path run_dir, int node_rank,
                           const Forwarding& forwarding)
    : run_dir_(std::move(run_dir)),
      node_rank_(node_rank),
      client_(
          std::make_unique<HttpClient>(parse_http_address(forwarding.to, "the forwarding address"),
                                       forward_options(node_rank, forwarding.token))),
      sender_({.client = *client_, .path = "", .name = kReceiverName, .reject = reject_forwarding}),
      status_{.name = "the run directory of rank 0"},
      thread_([this] { run(); }) {}

LogForwarder::~LogForwarder() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void LogForwarder::finish() {
  const MutexLock lock(mutex_);
  finishing_ = true;
  changed_.notify_all();
}

SinkStatus LogForwarder::status() const {
  const MutexLock lock(mutex_);
  return status_;
}

void LogForwarder::update_status(const std::string& problem, bool is_complete) {
  const auto left = sender_.backlog();
  const MutexLock lock(mutex_);
  status_.problem = problem;
  status_.complete = is_complete;
  status_.backlog = left;
}

void LogForwarder::run() {
  std::chrono::milliseconds backoff = kForwardInterval;
  MutexLock lock(mutex_);
  while (!stop_ && !status_.complete && !status_.gave_up) {
    const bool is_last = finishing_;
    lock.unlock();
    bool is_refused = false;
    try {
      send_logs(is_last);
      update_status("", is_last);
      backoff = kForwardInterval;
    } catch (const std::exception& error) {
      const auto* known = dynamic_cast<const Error*>(&error);
      is_refused = known && known->kind() == ErrorKind::Config;
      update_status(error.what(), false);
      backoff = std::min<std::chrono::milliseconds>(2 * backoff, kMaxForwardBackoff);
    }
    lock.lock();
    status_.gave_up = is_refused;
    changed_.wait_for(lock.native(), backoff,
                      [&]() REQUIRES(mutex_) { return stop_ || (finishing_ && !is_last); });
  }
}

// Excludes logs that ranks of another node wrote here in an earlier part of the run.
std::vector<std::filesystem::path> LogForwarder::own_logs() {
  const auto logs = rank_logs(run_dir_);
  if (logs.size() > own_.size()) {
    for (const auto& log : logs_of_nodes(run_dir_, std::set{node_rank_})) own_.insert(log);
    for (const auto& log : logs)
      if (has_writer(log)) own_.insert(log);
  }
  std::vector<std::filesystem::path> own(own_.begin(), own_.end());
  own.push_back(node_log_path(run_dir_, node_rank_));
  return own;
}

// A failure of one log does not stop the others.
void LogForwarder::send_logs(bool is_last) {
  std::exception_ptr first_problem;
  for (const auto& log : own_logs()) {
    try {
      sender_.send(log);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::Config) throw;
      if (!first_problem) first_problem = std::current_exception();
    }
  }
  if (first_problem) std::rethrow_exception(first_problem);
  if (is_last && !client_->post("/end", "").ok())
    throw environment_error(fmt::format("{} did not accept the end of the logs", kReceiverName));
}

}  // namespace lockstep::tracking
