#include "tracking/agent/log_forwarder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "core/http/http_client.h"
#include "core/printable.h"
#include "core/system/crc32c.h"
#include "lockstep/error.h"
#include "tracking/agent/run_entries.h"
#include "tracking/log/event_frame.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/log/event_log_segment.h"
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

bool has_magic(const std::string& bytes) {
  return bytes.size() >= kEventLogHeaderBytes && bytes.starts_with(kEventLogMagic);
}

// The size of the frame that starts with `bytes`; 0 if it cannot be determined.
size_t frame_bytes(std::string_view bytes) {
  uint32_t length = 0;
  if (bytes.size() < kFrameHeadBytes) return 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  length &= ~kZlibChecksum;
  return length <= kMaxFrameLength ? kFrameHeadBytes + length : 0;
}

// The state of the copy, from a response.
LogCopy parse_copy(const HttpResponse& response) {
  if (response.status == 401)
    throw config_error(fmt::format("{} rejected the token of this job", kReceiverName));
  const auto json = nlohmann::json::parse(response.body, nullptr, false);
  const auto copy = log_copy_from_json(json);
  if (copy && (response.ok() || response.status == 409)) return *copy;
  const bool has_problem =
      json.is_object() && json.contains("problem") && json["problem"].is_string();
  throw environment_error(fmt::format(
      "{} responded with status {}{}{}", kReceiverName, response.status, has_problem ? ": " : "",
      has_problem ? printable(json["problem"].get<std::string>(), 300) : ""));
}

}  // namespace

uint64_t complete_record_bytes(int segment, uint64_t from) {
  // Does not read the reserved space at the end of an idle log over and over.
  if (from > 0 && frame_bytes(read_log_piece(segment, from, kFrameHeadBytes)) <= kFrameHeadBytes)
    return 0;
  for (size_t size = kMaxForwardedBytes;;) {
    const auto bytes = read_log_piece(segment, from, size);
    if (from == 0 && !has_magic(bytes)) return 0;
    const size_t begin = from == 0 ? kEventLogHeaderBytes : 0;
    FrameCursor cursor(bytes, begin);
    while (cursor.next()) {
    }
    if (cursor.offset() > begin || from == 0) return cursor.offset();
    const auto wanted = frame_bytes(bytes);
    if (wanted <= size || bytes.size() < size) return 0;
    size = wanted;
  }
}

LogForwarder::LogForwarder(std::filesystem::path run_dir, int node_rank,
                           const Forwarding& forwarding)
    : run_dir_(std::move(run_dir)),
      node_rank_(node_rank),
      client_(
          std::make_unique<HttpClient>(parse_http_address(forwarding.to, "the forwarding address"),
                                       forward_options(node_rank, forwarding.token))),
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
  const auto left = backlog();
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
      send_log(log);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::Config) throw;
      if (!first_problem) first_problem = std::current_exception();
    }
  }
  if (first_problem) std::rethrow_exception(first_problem);
  if (is_last && !client_->post("/end", "").ok())
    throw environment_error(fmt::format("{} did not accept the end of the logs", kReceiverName));
}

// A segment is final once a later one exists, so the last segment is determined first.
void LogForwarder::send_log(const std::filesystem::path& log) {
  uint32_t last = 0;
  for (auto next = next_segment(log, last); next; next = next_segment(log, last))
    last = next->beginning.number;
  for (uint32_t number = 0; number <= last; ++number) {
    const auto segment = segment_path(log, number);
    if (progress_[segment].is_final) continue;
    send(segment);
    progress_[segment].is_final = number < last;
  }
}

void LogForwarder::compare(const std::filesystem::path& segment, int file, Progress& progress) {
  const auto copy = parse_copy(client_->get("/logs/" + segment.filename().string()));
  const auto begin = read_log_piece(file, 0, std::min<uint64_t>(copy.size, kComparedBytes));
  if (begin.size() < std::min<uint64_t>(copy.size, kComparedBytes) ||
      crc32c(begin.data(), begin.size()) != copy.begin_crc)
    throw environment_error(
        fmt::format("{} has a different log named {}", kReceiverName, segment.filename().string()));
  progress.copied_bytes = copy.size;
  progress.is_copy_known = true;
}

void LogForwarder::send(const std::filesystem::path& segment) {
  const FileDescriptor file(::open(segment.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open() && errno == ENOENT) return;  // not created yet, or a skipped number
  if (!file.is_open()) throw errno_error(fmt::format("cannot read {}", segment.string()));
  auto& progress = progress_[segment];
  if (!progress.is_copy_known) compare(segment, file.get(), progress);
  while (true) {
    if (progress.copied_bytes >= progress.local_bytes) {
      const auto more = complete_record_bytes(file.get(), progress.local_bytes);
      progress.local_bytes += more;
      if (more == 0) break;
      continue;
    }
    const auto size =
        std::min<uint64_t>(progress.local_bytes - progress.copied_bytes, kMaxForwardedBytes);
    const auto at =
        fmt::format("/logs/{}?offset={}", segment.filename().string(), progress.copied_bytes);
    const auto bytes = read_log_piece(file.get(), progress.copied_bytes, size);
    progress.is_copy_known = false;  // until the response arrives
    progress.copied_bytes = parse_copy(client_->post(at, bytes, "application/octet-stream")).size;
    progress.is_copy_known = true;
  }
  if (progress.copied_bytes > progress.local_bytes)
    throw environment_error(fmt::format("{} has a longer copy of {} than this node", kReceiverName,
                                        segment.filename().string()));
}

uint64_t LogForwarder::backlog() {
  uint64_t bytes = 0;
  for (const auto& [path, progress] : progress_)
    bytes += progress.local_bytes - std::min(progress.copied_bytes, progress.local_bytes);
  return bytes;
}

}  // namespace lockstep::tracking
