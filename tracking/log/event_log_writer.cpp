#include "tracking/log/event_log_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "lockstep/error.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/log/message_pack.h"
#include "tracking/log/unix_time.h"

namespace lockstep::tracking {
namespace {

// Reserved after every record, so that the end of the run fits on a full disk too.
constexpr size_t kEndBytes = 4096;
constexpr size_t kMaxLastTextLength = 1000;
constexpr auto kTryAgainEvery = std::chrono::milliseconds(500);

// After a failure to create a segment, it is tried again after this fraction of the limit.
constexpr uint64_t kRetriesPerSegment = 8;

template <class T>
void put(std::string& payload, const T& value) {
  payload.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

LogContents read_for_writing(const std::filesystem::path& path) {
  auto log = read_log_segment(path);
  if (!log.problem.empty())
    throw environment_error(
        fmt::format("cannot continue {}: {}; move it away", path.string(), log.problem));
  return log;
}

}  // namespace

// A reader that calls has_writer() holds a shared lock for a moment. Only a log that cannot be
// locked shared either has another writer.
void lock_for_writing(int fd, const std::filesystem::path& path) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return;
    if (errno != EWOULDBLOCK && errno != EINTR)
      throw errno_error(fmt::format("cannot lock {}", path.string()));
    if (::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) break;
    ::sched_yield();
  }
  throw environment_error(fmt::format(
      "{} is being written by another process; was this run started twice?", path.string()));
}

EventLogWriter::EventLogWriter(const std::filesystem::path& path, uint64_t max_bytes)
    : path_(path), max_bytes_(max_bytes), limit_(max_bytes) {
  bool created = true;
  lock_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!lock_.is_open() && errno == EEXIST) {
    created = false;
    lock_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  }
  if (!lock_.is_open()) throw errno_error(fmt::format("cannot open event log {}", path.string()));
  lock_for_writing(lock_.get(), path);
  while (const auto next = next_segment(path, segment_)) {
    segment_ = next->beginning.number;
    begin_bytes_ = next->beginning.bytes;
  }
  continue_segment();
  // Also for a log that is continued, so that a full disk is detected now.
  if (!file_->reserve(kFrameHeadBytes, kEndBytes)) {
    if (created) ::unlink(path.c_str());
    throw environment_error(file_->failure());
  }
}

// The start of a segment repeats the state, so earlier ones need not be read.
void EventLogWriter::continue_segment() {
  const auto path = segment_path(path_, segment_);
  auto log = read_for_writing(path);
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.is_open()) throw errno_error(fmt::format("cannot open event log {}", path.string()));
  if (::ftruncate(file.get(), static_cast<off_t>(log.good_bytes)))
    throw errno_error(fmt::format("cannot truncate {}", path.string()));
  for (const auto& key : log.keys) keys_.emplace(key, num_keys_++);
  num_written_keys_ = num_keys_;
  info_ = std::move(log.info);
  config_ = std::move(log.config);
  file_ = std::make_unique<MappedAppend>(std::move(file), log.good_bytes, path);
  if (log.good_bytes == 0) append_header();
}

LogState EventLogWriter::state() const {
  LogState state{
      .info = info_, .config = config_, .keys = std::vector<std::string>(num_written_keys_)};
  for (const auto& [name, id] : keys_)
    if (id < num_written_keys_) state.keys[id] = name;
  return state;
}

bool EventLogWriter::must_begin_segment(size_t frame_bytes) const {
  return file_->length() + frame_bytes > limit_ && file_->length() > begin_bytes_;
}

// Readers see the segment once its magic is written, after the previous one is final.
void EventLogWriter::begin_segment() {
  if (!file_->is_open()) return;
  FileDescriptor file;
  auto number = segment_;
  do {
    file = FileDescriptor(
        ::open(segment_path(path_, ++number).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  } while (!file.is_open() && errno == EEXIST);
  const auto path = segment_path(path_, number);
  const auto beginning = encode_beginning(number, state());
  auto next = std::make_unique<MappedAppend>(std::move(file), 0, path);
  auto* target = next->reserve(beginning.size(), kEndBytes);
  if (!target) {
    ::unlink(path.c_str());
    limit_ = file_->length() + max_bytes_ / kRetriesPerSegment;
    return;
  }
  constexpr auto kMagicBytes = kEventLogMagic.size();
  std::memcpy(target + kMagicBytes, beginning.data() + kMagicBytes, beginning.size() - kMagicBytes);
  next->commit(beginning.size());
  file_->close(true);
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(target, beginning.data(), kMagicBytes);
  file_ = std::move(next);
  segment_ = number;
  begin_bytes_ = beginning.size();
  limit_ = max_bytes_;
}

void EventLogWriter::append_header() {
  auto* target = file_->reserve(kEventLogHeaderBytes);
  if (!target) return;
  std::memcpy(target, kEventLogMagic.data(), kEventLogMagic.size());
  std::memcpy(target + kEventLogMagic.size(), &kEventLogVersion, sizeof(kEventLogVersion));
  file_->commit(kEventLogHeaderBytes);
}

bool EventLogWriter::append(FrameType type, std::string_view payload) {
  if (payload.size() >= kMaxFrameLength)
    return drop(fmt::format("a record of {} bytes is too large", payload.size()));
  if (outage_ && !end_outage(false)) return hold(type, payload);
  if (write(type, payload, kEndBytes)) return true;
  if (!file_->is_open()) return drop(file_->failure());
  begin_outage();
  return hold(type, payload);
}

bool EventLogWriter::write(FrameType type, std::string_view payload, size_t spare) {
  const auto size = kFrameHeadBytes + 1 + payload.size();
  if (must_begin_segment(size)) begin_segment();
  auto* target = file_->reserve(size, spare);
  if (!target) return false;
  write_frame(target, type, payload);
  file_->commit(size);
  if (type == FrameType::Key) ++num_written_keys_;
  return true;
}

void EventLogWriter::begin_outage() {
  outage_ = Outage{.reason = file_->failure(),
                   .since = unix_now(),
                   .next_try = std::chrono::steady_clock::now() + kTryAgainEvery};
  notice_ =
      TextLine{.time = outage_->since,
               .level = TextLevel::Warning,
               .line = fmt::format("event log: {}; records are kept in memory (at most {} MiB) "
                                   "until there is space",
                                   outage_->reason, kMaxHeldBytes >> 20)};
}

bool EventLogWriter::hold(FrameType type, std::string_view payload) {
  auto& held = outage_->held;
  const auto begin = held.size(), size = kFrameHeadBytes + 1 + payload.size();
  if (begin + size > kMaxHeldBytes) {
    ++outage_->num_dropped;
    return drop(outage_->reason);
  }
  held.resize(begin + size);
  write_frame(reinterpret_cast<std::byte*>(held.data() + begin), type, payload);
  ++outage_->num_held;
  return true;
}

// Writes the held records if there is space again. Tried twice a second, since it is a system call.
bool EventLogWriter::end_outage(bool force) {
  auto& [reason, since, next_try, held, num_held, num_dropped] = *outage_;
  const auto now = std::chrono::steady_clock::now();
  if (!force && now < next_try) return false;
  next_try = now + kTryAgainEvery;
  FrameCursor cursor(held, 0);
  size_t written = 0;
  while (const auto frame = cursor.next()) {
    if (!write(static_cast<FrameType>(frame->type), frame->payload, kEndBytes)) break;
    written = cursor.offset();
    --num_held;
  }
  held.erase(0, written);
  if (!held.empty()) return false;
  const auto loss = num_dropped > 0 ? fmt::format("{} records were dropped", num_dropped)
                                    : std::string("no record was dropped");
  notice_ = TextLine{.time = unix_now(),
                     .level = num_dropped > 0 ? TextLevel::Warning : TextLevel::Info,
                     .line = fmt::format("event log: the disk has space again after {:.1f} s; {}",
                                         unix_now() - since, loss)};
  outage_.reset();
  append(FrameType::Text, encode(*notice_));
  return !outage_;
}

// The disk stayed full until the end.
void EventLogWriter::drop_held() {
  const auto lost = *std::exchange(outage_, std::nullopt);
  num_dropped_ += lost.num_held;
  if (failure_.empty()) failure_ = lost.reason;
  const auto line = fmt::format("event log: the last {} records were dropped: {}",
                                lost.num_held + lost.num_dropped, lost.reason);
  write(FrameType::Text,
        encode(TextLine{.time = unix_now(),
                        .level = TextLevel::Warning,
                        .line = line.substr(0, kMaxLastTextLength)}),
        kEndBytes / 2);
}

bool EventLogWriter::drop(const std::string& why) {
  ++num_dropped_;
  if (failure_.empty()) failure_ = why;
  return false;
}

std::optional<uint32_t> EventLogWriter::key_of(std::string_view name) {
  if (const auto it = keys_.find(name); it != keys_.end()) return it->second;
  if (name.empty() || name.size() > kMaxMetricNameBytes) {
    drop(fmt::format("a metric name of {} bytes; 1 to {} are valid", name.size(),
                     kMaxMetricNameBytes));
    return std::nullopt;
  }
  std::string payload;
  put(payload, num_keys_);
  payload += name;
  if (!append(FrameType::Key, payload)) return std::nullopt;
  keys_.emplace(name, num_keys_);
  return num_keys_++;
}

// Most rows have the same names as the previous row.
std::optional<uint32_t> EventLogWriter::key_at(size_t index, std::string_view name) {
  if (!name.empty() && index < row_keys_.size() && row_keys_[index].first == name)
    return row_keys_[index].second;
  const auto id = key_of(name);
  if (!id) return std::nullopt;
  if (row_keys_.size() <= index) row_keys_.resize(index + 1);
  row_keys_[index] = {std::string(name), *id};
  return id;
}

void EventLogWriter::scalars(const ScalarRow& row) {
  payload_.clear();
  put(payload_, row.step);
  put(payload_, row.time);
  put(payload_, row.epoch);
  const auto head = payload_.size();
  for (size_t i = 0; i < row.values.size(); ++i) {
    const auto id = key_at(i, row.values[i].name);
    if (!id) continue;
    put(payload_, *id);
    put(payload_, without_nan_sign(row.values[i].value));
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
  if (!append(FrameType::Identity, to_message_pack(to_json(info)))) return;
  info_ = continued_from(info_, info);
}
void EventLogWriter::config(const Json& config) {
  if (append(FrameType::Config, to_message_pack(config))) config_ = config;
}
void EventLogWriter::summary(const Json& values) {
  append(FrameType::Summary, to_message_pack(values));
}
void EventLogWriter::end(const RunEnd& end) {
  if (outage_ && !end_outage(true)) drop_held();
  if (write(FrameType::End, to_message_pack(to_json(end)), 0) || !file_->is_open()) return;
  auto shorter = end;
  shorter.reason.resize(std::min(shorter.reason.size(), kMaxLastTextLength));
  if (!write(FrameType::End, to_message_pack(to_json(shorter)), 0)) drop(file_->failure());
}

void EventLogWriter::close() noexcept {
  try {
    if (outage_ && !end_outage(true)) drop_held();
  } catch (...) {
    // Out of memory: the held records are lost.
  }
  file_->close(true);
  lock_.close();
}

}  // namespace lockstep::tracking
