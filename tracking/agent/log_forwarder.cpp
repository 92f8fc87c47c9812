#include "tracking/agent/log_forwarder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "core/printable.h"
#include "core/system/crc32c.h"
#include "lockstep/error.h"
#include "tracking/agent/run_entries.h"
#include "tracking/http/http_client.h"
#include "tracking/log/event_frame.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/log/event_log_segment.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {
namespace {

constexpr auto kForwardEvery = std::chrono::milliseconds(200);
constexpr auto kMaxForwardPause = std::chrono::seconds(10);
constexpr auto kAnswersWithin = std::chrono::seconds(10);
constexpr const char* kReceiverName = "the tracking agent of rank 0's node";

HttpOptions forward_options(int node_rank, const std::string& token) {
  HttpOptions options;
  options.name = kReceiverName;
  options.timeout = kAnswersWithin;
  options.headers = {{"Authorization", "Bearer " + token},
                     {"Lockstep-Node", std::to_string(node_rank)}};
  return options;
}

bool has_magic(const std::string& bytes) {
  return bytes.size() >= kEventLogHeaderBytes && bytes.starts_with(kEventLogMagic);
}

// Of a frame whose first bytes these are.
size_t frame_bytes(std::string_view bytes) {
  uint32_t length = 0;
  if (bytes.size() < kFrameHeadBytes) return 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  return length <= kMaxFrameLength ? kFrameHeadBytes + length : 0;
}

// What the answer says of the copy.
LogCopy copy_there(const HttpResponse& answer) {
  if (answer.status == 401)
    throw config_error(fmt::format("{} refuses the token of this job", kReceiverName));
  const auto json = nlohmann::json::parse(answer.body, nullptr, false);
  const auto copy = log_copy_from_json(json);
  if (copy && (answer.ok() || answer.status == 409)) return *copy;
  const bool tells = json.is_object() && json.contains("problem") && json["problem"].is_string();
  throw environment_error(
      fmt::format("{} answers {}{}{}", kReceiverName, answer.status, tells ? ": " : "",
                  tells ? printable(json["problem"].get<std::string>(), 300) : ""));
}

}  // namespace

uint64_t whole_records(int segment, uint64_t from) {
  // The reserved rest of a log that nobody writes to is not read over and over.
  if (from > 0 && frame_bytes(read_log_piece(segment, from, kFrameHeadBytes)) <= kFrameHeadBytes)
    return 0;
  for (size_t size = kForwardedPiece;;) {
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

void LogForwarder::note(const std::string& problem, bool is_complete) {
  const auto left = backlog();
  const MutexLock lock(mutex_);
  status_.problem = problem;
  status_.complete = is_complete;
  status_.backlog = left;
}

void LogForwarder::run() {
  std::chrono::milliseconds pause = kForwardEvery;
  MutexLock lock(mutex_);
  while (!stop_ && !status_.complete && !status_.gave_up) {
    const bool is_last = finishing_;
    lock.unlock();
    bool is_refused = false;
    try {
      turn(is_last);
      note("", is_last);
      pause = kForwardEvery;
    } catch (const std::exception& error) {
      const auto* known = dynamic_cast<const Error*>(&error);
      is_refused = known && known->kind() == ErrorKind::Config;
      note(error.what(), false);
      pause = std::min<std::chrono::milliseconds>(2 * pause, kMaxForwardPause);
    }
    lock.lock();
    status_.gave_up = is_refused;
    changed_.wait_for(lock.native(), pause,
                      [&]() REQUIRES(mutex_) { return stop_ || (finishing_ && !is_last); });
  }
}

// Not those that ranks of another node left here in an earlier part of the run.
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

// What is wrong with one log does not keep the others.
void LogForwarder::turn(bool is_last) {
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
    throw environment_error(fmt::format("{} does not take the end", kReceiverName));
}

// A segment is final once there is a later one, so which there are is looked up first.
void LogForwarder::send_log(const std::filesystem::path& log) {
  uint32_t last = 0;
  for (auto next = next_segment(log, last); next; next = next_segment(log, last))
    last = next->beginning.number;
  for (uint32_t number = 0; number <= last; ++number) {
    const auto segment = segment_path(log, number);
    if (sent_[segment].is_final) continue;
    send(segment);
    sent_[segment].is_final = number < last;
  }
}

void LogForwarder::compare(const std::filesystem::path& segment, int file, Sent& sent) {
  const auto copy = copy_there(client_->get("/logs/" + segment.filename().string()));
  const auto begin = read_log_piece(file, 0, std::min<uint64_t>(copy.size, kComparedBytes));
  if (begin.size() < std::min<uint64_t>(copy.size, kComparedBytes) ||
      crc32c(begin.data(), begin.size()) != copy.begin_crc)
    throw environment_error(fmt::format("{} has another log by the name of {}", kReceiverName,
                                        segment.filename().string()));
  sent.there = copy.size;
  sent.is_known = true;
}

void LogForwarder::send(const std::filesystem::path& segment) {
  const FileDescriptor file(::open(segment.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open() && errno == ENOENT) return;  // not yet, or a number that was passed over
  if (!file.is_open()) throw errno_error(fmt::format("cannot read {}", segment.string()));
  auto& sent = sent_[segment];
  if (!sent.is_known) compare(segment, file.get(), sent);
  while (true) {
    if (sent.there >= sent.whole) {
      const auto more = whole_records(file.get(), sent.whole);
      sent.whole += more;
      if (more == 0) break;
      continue;
    }
    const auto size = std::min<uint64_t>(sent.whole - sent.there, kForwardedPiece);
    const auto at = fmt::format("/logs/{}?offset={}", segment.filename().string(), sent.there);
    const auto bytes = read_log_piece(file.get(), sent.there, size);
    sent.is_known = false;  // until the answer is there
    sent.there = copy_there(client_->post(at, bytes, "application/octet-stream")).size;
    sent.is_known = true;
  }
  if (sent.there > sent.whole)
    throw environment_error(fmt::format("{} has more of {} than there is here", kReceiverName,
                                        segment.filename().string()));
}

uint64_t LogForwarder::backlog() {
  uint64_t bytes = 0;
  for (const auto& [path, sent] : sent_) bytes += sent.whole - std::min(sent.there, sent.whole);
  return bytes;
}

}  // namespace lockstep::tracking
