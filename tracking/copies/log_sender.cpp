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

std::string path_of_log(const std::string& prefix, const std::filesystem::path& segment) {
  return fmt::format("{}/logs/{}", prefix, segment.filename().string());
}

}  // namespace

LogSender::LogSender(LogReceiverAddress to)
    : to_(std::move(to)), piece_bytes_(std::min(kMinPieceBytes, to_.max_request_bytes)) {}

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

// The state of the copy, from a response.
LogCopy LogSender::copy_in(const HttpResponse& response) const {
  const auto json = parse_json(response.body);
  const auto copy = log_copy_from_json(json);
  if (copy && (response.ok() || response.status == 409)) return *copy;
  to_.reject(response);
  throw environment_error(
      fmt::format("{} sent an invalid response (status {})", to_.name, response.status));
}

// A copy that is longer than the log is not a copy of it.
void LogSender::verify(const std::filesystem::path& segment, int file, const LogCopy& copy,
                       Progress& progress) {
  if (copy.size < progress.copied_bytes) {
    progress_.clear();  // other segments may be gone, too
    throw environment_error(
        fmt::format("{} has lost records of {}", to_.name, segment.filename().string()));
  }
  const auto size = static_cast<uint64_t>(::lseek(file, 0, SEEK_END));
  if (size < copy.size || measure_copy(file, copy.size) != copy)
    throw environment_error(
        fmt::format("{} has a different log named {}", to_.name, segment.filename().string()));
  progress.copied_bytes = copy.size;
  progress.is_copy_known = true;
}

void LogSender::adapt_piece(std::chrono::steady_clock::duration taken) {
  if (taken < kFastPiece) piece_bytes_ = std::min(2 * piece_bytes_, to_.max_request_bytes);
  if (taken > kSlowPiece) piece_bytes_ = std::max(piece_bytes_ / 2, kMinPieceBytes);
}

// The bytes that the copy does not have.
uint64_t LogSender::measure(const std::filesystem::path& segment, int file, Progress& progress) {
  if (!progress.is_copy_known)
    verify(segment, file, copy_in(to_.client.get(path_of_log(to_.path, segment))), progress);
  while (const auto more = complete_record_bytes(file, progress.local_bytes))
    progress.local_bytes += more;
  if (progress.copied_bytes > progress.local_bytes)
    throw environment_error(fmt::format("{} has a longer copy of {} than this node", to_.name,
                                        segment.filename().string()));
  return progress.local_bytes - progress.copied_bytes;
}

void LogSender::send_piece(const std::filesystem::path& segment, int file, Progress& progress) {
  const auto size = std::min<uint64_t>(progress.local_bytes - progress.copied_bytes, piece_bytes_);
  const auto at =
      fmt::format("{}?offset={}", path_of_log(to_.path, segment), progress.copied_bytes);
  const auto bytes = read_log_piece(file, progress.copied_bytes, size);
  progress.is_copy_known = false;  // until the response arrives
  const auto begin = std::chrono::steady_clock::now();
  const auto response = to_.client.post(at, bytes, "application/octet-stream");
  adapt_piece(std::chrono::steady_clock::now() - begin);
  verify(segment, file, copy_in(response), progress);
}

uint64_t LogSender::handle_segment(const std::filesystem::path& segment, bool sends) {
  const FileDescriptor file(::open(segment.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open() && errno == ENOENT) return 0;  // not created yet, or a skipped number
  if (!file.is_open()) throw errno_error(fmt::format("cannot read {}", segment.string()));
  auto& progress = progress_[segment];
  auto missing = measure(segment, file.get(), progress);
  while (sends && missing > 0) {
    send_piece(segment, file.get(), progress);
    if (progress.copied_bytes < progress.local_bytes) continue;
    missing = measure(segment, file.get(), progress);
  }
  return missing;
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
