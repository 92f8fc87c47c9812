#include "tracking/event_log_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "core/crc32c.h"
#include "core/error.h"
#include "tracking/event_log_reader.h"
#include "tracking/message_pack.h"

namespace lockstep {
namespace {

template <class T>
void put(std::string& payload, const T& value) {
  payload.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// A reader that asks has_writer() holds a shared lock for a moment. Only a log that cannot even be
// locked shared belongs to another writer.
void lock_for_writing(int fd, const std::filesystem::path& path) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return;
    if (errno != EWOULDBLOCK && errno != EINTR)
      throw errno_error(fmt::format("cannot lock {}", path.string()));
    if (::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) break;
    ::sched_yield();
  }
  throw environment_error(fmt::format(
      "{} is being written by another process: is this run started twice?", path.string()));
}

LogContents read_for_writing(const std::filesystem::path& path) {
  auto log = read_event_log(path);
  if (!log.problem.empty())
    throw environment_error(
        fmt::format("cannot continue {}: {}; move it away", path.string(), log.problem));
  return log;
}

}  // namespace

EventLogWriter::EventLogWriter(const std::filesystem::path& path) {
  bool created = true;
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file.is_open() && errno == EEXIST) {
    created = false;
    file = FileDescriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  }
  if (!file.is_open()) throw errno_error(fmt::format("cannot open event log {}", path.string()));
  lock_for_writing(file.get(), path);
  const auto log = read_for_writing(path);
  if (::ftruncate(file.get(), static_cast<off_t>(log.good_bytes)))
    throw errno_error(fmt::format("cannot truncate {}", path.string()));
  for (const auto& key : log.keys) keys_.emplace(key, num_keys_++);
  file_.emplace(std::move(file), log.good_bytes, path);
  if (log.good_bytes == 0) append_header();
  // Also for a log that is continued: a disk that is full now is found now.
  if (!file_->reserve(kFrameHeadBytes)) {
    if (created) ::unlink(path.c_str());
    throw environment_error(file_->failure());
  }
}

void EventLogWriter::append_header() {
  auto* target = file_->reserve(kEventLogHeaderBytes);
  if (!target) return;
  std::memcpy(target, kEventLogMagic.data(), kEventLogMagic.size());
  std::memcpy(target + kEventLogMagic.size(), &kEventLogVersion, sizeof(kEventLogVersion));
  file_->commit(kEventLogHeaderBytes);
}

// The length goes last: a kill before it leaves a frame that does not exist yet.
void EventLogWriter::append(FrameType type, std::string_view payload) {
  if (payload.size() >= kMaxFrameLength)
    return drop(fmt::format("a record of {} bytes is too large", payload.size()));
  const auto length = static_cast<uint32_t>(1 + payload.size());
  auto* target = file_->reserve(kFrameHeadBytes + length);
  if (!target) return drop(file_->failure());
  auto* body = target + kFrameHeadBytes;
  body[0] = static_cast<std::byte>(type);
  if (!payload.empty()) std::memcpy(body + 1, payload.data(), payload.size());
  const auto checksum = crc32c(body, length);
  std::memcpy(target + sizeof(length), &checksum, sizeof(checksum));
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(target, &length, sizeof(length));
  file_->commit(kFrameHeadBytes + length);
}

void EventLogWriter::drop(const std::string& why) {
  ++num_dropped_;
  if (failure_.empty()) failure_ = why;
}

std::optional<uint32_t> EventLogWriter::key_of(std::string_view name) {
  if (const auto it = keys_.find(name); it != keys_.end()) return it->second;
  if (name.empty() || name.size() > kMaxMetricNameBytes) {
    drop(fmt::format("a metric name of {} bytes, 1 to {} are valid", name.size(),
                     kMaxMetricNameBytes));
    return std::nullopt;
  }
  std::string payload;
  put(payload, num_keys_);
  payload += name;
  const auto dropped = num_dropped_;
  append(FrameType::Key, payload);
  if (num_dropped_ != dropped) return std::nullopt;
  keys_.emplace(name, num_keys_);
  return num_keys_++;
}

void EventLogWriter::scalars(const ScalarRow& row) {
  payload_.clear();
  put(payload_, row.step);
  put(payload_, row.time);
  put(payload_, row.epoch);
  const auto head = payload_.size();
  for (const auto& metric : row.values) {
    const auto id = key_of(metric.name);
    if (!id) continue;
    put(payload_, *id);
    put(payload_, metric.value);
  }
  if (payload_.size() > head) append(FrameType::Scalars, payload_);
}

void EventLogWriter::heartbeat(double time) {
  std::string payload;
  put(payload, time);
  append(FrameType::Heartbeat, payload);
}

void EventLogWriter::rewind(int64_t step) {
  std::string payload;
  put(payload, step);
  append(FrameType::Rewind, payload);
}

void EventLogWriter::identity(const RunInfo& info) {
  append(FrameType::Identity, to_message_pack(to_json(info)));
}
void EventLogWriter::config(const Json& config) {
  append(FrameType::Config, to_message_pack(config));
}
void EventLogWriter::summary(const Json& values) {
  append(FrameType::Summary, to_message_pack(values));
}
void EventLogWriter::end(const RunEnd& end) {
  append(FrameType::End, to_message_pack(to_json(end)));
}

}  // namespace lockstep
