#include "tracking/copies/log_sender.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "core/bounded_json.h"
#include "core/http/http_client.h"
#include "core/system/file_descriptor.h"
#include "lockstep/error.h"
#include "tracking/log/event_frame.h"
#include "tracking/log/event_log_segment.h"

namespace lockstep::tracking {
namespace {

constexpr size_t kScannedBytes = 1u << 20;
// The receiver limits the time of a request, so a slow connection needs small ones. After a failure
// that has destroyed the sender, the next one begins with the smallest.
constexpr size_t kMinPieceBytes = 8u << 10;
constexpr std::chrono::milliseconds kFastPiece{500}, kSlowPiece{2000};

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

class HttpLogCopyStore final : public LogCopyStore {
 public:
  explicit HttpLogCopyStore(LogReceiverAddress to) : to_(std::move(to)) {}

  LogCopy copy(const std::string& segment) override {
    return copy_in(to_.client.get(path_of(segment)));
  }

  LogCopy append(const std::string& segment, uint64_t offset, const std::string& bytes) override {
    return copy_in(to_.client.post(fmt::format("{}?offset={}", path_of(segment), offset), bytes,
                                   "application/octet-stream"));
  }

 private:
  std::string path_of(const std::string& segment) const {
    return fmt::format("{}/logs/{}", to_.path, segment);
  }

  LogCopy copy_in(const HttpResponse& response) const {
    const auto json = parse_json(response.body);
    const auto copy = log_copy_from_json(json);
    if (copy && (response.ok() || response.status == 409)) return *copy;
    to_.reject(response);
    throw environment_error(
        fmt::format("{} sent an invalid response (status {})", to_.name, response.status));
  }

  const LogReceiverAddress to_;
};

std::string name_of_segment(const std::filesystem::path& segment) {
  return segment.filename().string();
}

}  // namespace

LogSender::LogSender(const LogReceiverAddress& to)
    : to_(std::make_unique<HttpLogCopyStore>(to)),
      name_(to.name),
      min_piece_bytes_(std::min(kMinPieceBytes, to.max_request_bytes)),
      max_piece_bytes_(to.max_request_bytes),
      piece_bytes_(min_piece_bytes_) {}

LogSender::LogSender(std::unique_ptr<LogCopyStore> to, std::string name, size_t piece_bytes)
    : to_(std::move(to)),
      name_(std::move(name)),
      min_piece_bytes_(piece_bytes),
      max_piece_bytes_(piece_bytes),
      piece_bytes_(piece_bytes) {}

uint64_t complete_record_bytes(int segment, uint64_t from) {
  // Does not read the reserved space at the end of an idle log over and over.
  if (from > 0 && frame_bytes(read_log_piece(segment, from, kFrameHeadBytes)) <= kFrameHeadBytes)
    return 0;
  for (size_t size = kScannedBytes;;) {
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

// A copy that is longer than the log is not a copy of it.
void LogSender::verify(const std::filesystem::path& segment, int file, const LogCopy& copy,
                       Progress& progress) {
  if (copy.size < progress.copied_bytes) {
    progress_.clear();  // other segments may be gone, too
    throw environment_error(
        fmt::format("{} has lost records of {}", name_, name_of_segment(segment)));
  }
  const auto size = static_cast<uint64_t>(::lseek(file, 0, SEEK_END));
  if (size < copy.size || measure_copy(file, copy.size) != copy)
    throw environment_error(
        fmt::format("{} has a different log named {}", name_, name_of_segment(segment)));
  progress.copied_bytes = copy.size;
  progress.is_copy_known = true;
}

void LogSender::adapt_piece(std::chrono::steady_clock::duration taken) {
  if (taken < kFastPiece) piece_bytes_ = std::min(2 * piece_bytes_, max_piece_bytes_);
  if (taken > kSlowPiece) piece_bytes_ = std::max(piece_bytes_ / 2, min_piece_bytes_);
}

// The bytes that the copy does not have.
uint64_t LogSender::measure(const std::filesystem::path& segment, int file, Progress& progress) {
  if (!progress.is_copy_known) verify(segment, file, to_->copy(name_of_segment(segment)), progress);
  while (const auto more = complete_record_bytes(file, progress.local_bytes))
    progress.local_bytes += more;
  if (progress.copied_bytes > progress.local_bytes)
    throw environment_error(
        fmt::format("{} has a longer copy of {} than this node", name_, name_of_segment(segment)));
  return progress.local_bytes - progress.copied_bytes;
}

void LogSender::send_piece(const std::filesystem::path& segment, int file, Progress& progress) {
  const auto size = std::min<uint64_t>(progress.local_bytes - progress.copied_bytes, piece_bytes_);
  const auto bytes = read_log_piece(file, progress.copied_bytes, size);
  progress.is_copy_known = false;  // until the response arrives
  const auto begin = std::chrono::steady_clock::now();
  const auto copy = to_->append(name_of_segment(segment), progress.copied_bytes, bytes);
  adapt_piece(std::chrono::steady_clock::now() - begin);
  verify(segment, file, copy, progress);
}

uint64_t LogSender::handle_segment(const std::filesystem::path& segment, bool sends) {
  const FileDescriptor file(::open(segment.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open() && errno == ENOENT) return 0;  // not created yet, or a skipped number
  if (!file.is_open()) throw errno_error(fmt::format("cannot read {}", segment.string()));
  auto& progress = progress_[segment];
  const auto missing = measure(segment, file.get(), progress);
  if (!sends) return missing;
  // Not what is written meanwhile: other logs wait, and a receiver may be slower than the writer.
  while (progress.copied_bytes < progress.local_bytes) send_piece(segment, file.get(), progress);
  return 0;
}

// A segment is final once a later one exists, so the last segment is determined first.
uint64_t LogSender::handle_segments(const std::filesystem::path& log, bool sends) {
  uint32_t last = 0;
  for (auto next = next_segment(log, last); next; next = next_segment(log, last))
    last = next->beginning.number;
  uint64_t missing = 0;
  for (uint32_t number = 0; number <= last; ++number) {
    const auto segment = segment_path(log, number);
    if (progress_[segment].is_final) continue;
    missing += handle_segment(segment, sends);
    progress_[segment].is_final = sends && number < last;
  }
  return missing;
}

void LogSender::send(const std::filesystem::path& log) { handle_segments(log, true); }

uint64_t LogSender::missing_bytes(const std::filesystem::path& log) {
  return handle_segments(log, false);
}

uint64_t LogSender::backlog() const {
  uint64_t bytes = 0;
  for (const auto& [path, progress] : progress_)
    bytes += progress.local_bytes - std::min(progress.copied_bytes, progress.local_bytes);
  return bytes;
}

}  // namespace lockstep::tracking
