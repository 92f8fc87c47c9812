#include "tracking/log/event_log_segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/system/full_io.h"
#include "lockstep/error.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/log/message_pack.h"
#include "tracking/log/record_codec.h"

namespace lockstep::tracking {
namespace {

constexpr size_t kContinuedPayloadBytes = sizeof(uint32_t) + sizeof(uint64_t);
constexpr size_t kFirstCopy = kEventLogHeaderBytes + kFrameHeadBytes + 1 + kContinuedPayloadBytes;

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string header_bytes() {
  std::string bytes(kEventLogMagic);
  bytes += bytes_of(kEventLogVersion);
  bytes += bytes_of(uint32_t{0});
  return bytes;
}

void append_frame(std::string& bytes, FrameType type, std::string_view payload) {
  const auto begin = bytes.size();
  bytes.resize(begin + kFrameHeadBytes + 1 + payload.size());
  write_frame(reinterpret_cast<std::byte*>(bytes.data() + begin), type, payload);
}

std::optional<SegmentBeginning> decode_continued(std::string_view bytes) {
  if (!bytes.starts_with(kEventLogMagic) || !log_header_problem(bytes).empty()) return std::nullopt;
  const auto frame = FrameCursor(bytes.substr(0, kFirstCopy)).next();
  if (!frame || frame->type != static_cast<uint8_t>(FrameType::Continued)) return std::nullopt;
  SegmentBeginning beginning;
  PayloadReader payload(frame->payload);
  if (!payload.take(beginning.number) || !payload.take(beginning.bytes) || !payload.rest().empty())
    return std::nullopt;
  return beginning;
}

bool take_copy(Record&& record, LogState& state) {
  if (auto* info = std::get_if<RunInfo>(&record))
    state.info = std::move(*info);
  else if (auto* config = std::get_if<ConfigRecord>(&record))
    state.config = std::move(config->config);
  else if (auto* key = std::get_if<KeyRecord>(&record))
    state.keys.push_back(std::move(key->name));
  else
    return false;
  return true;
}

}  // namespace

std::string read_log_piece(int file, uint64_t offset, size_t size) {
  struct stat info {};
  if (::fstat(file, &info) != 0) throw errno_error("cannot read an event log");
  const auto end = static_cast<uint64_t>(info.st_size);
  auto bytes = read_text_at(file, std::min<uint64_t>(size, end - std::min(offset, end)), offset);
  if (!bytes) throw errno_error("cannot read an event log");
  return std::move(*bytes);
}

std::filesystem::path segment_path(const std::filesystem::path& log, uint32_t number) {
  if (number == 0) return log;
  return log.parent_path() /
         fmt::format("{}.{}{}", log.stem().string(), number, log.extension().string());
}

bool has_log_magic(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string magic(kEventLogMagic.size(), '\0');
  return file.is_open() && ::pread(file.get(), magic.data(), magic.size(), 0) > 0 &&
         magic == kEventLogMagic;
}

std::string encode_beginning(uint32_t number, const LogState& state) {
  std::string copies;
  if (state.info) append_frame(copies, FrameType::Identity, to_message_pack(to_json(*state.info)));
  if (!state.config.is_null())
    append_frame(copies, FrameType::Config, to_message_pack(state.config));
  for (uint32_t id = 0; id < state.keys.size(); ++id)
    append_frame(copies, FrameType::Key, bytes_of(id) + state.keys[id]);
  auto bytes = header_bytes();
  append_frame(bytes, FrameType::Continued,
               bytes_of(number) + bytes_of(uint64_t{kFirstCopy + copies.size()}));
  return bytes + copies;
}

std::optional<SegmentBeginning> decode_beginning(std::string_view bytes) {
  auto beginning = decode_continued(bytes);
  if (!beginning || beginning->bytes > bytes.size()) return std::nullopt;
  FrameCursor cursor(bytes.substr(0, beginning->bytes), kFirstCopy);
  while (const auto frame = cursor.next()) {
    auto record = decode_record(*frame, beginning->state.keys.size());
    if (!record || !take_copy(std::move(*record), beginning->state)) return std::nullopt;
  }
  return cursor.offset() == beginning->bytes ? beginning : std::nullopt;
}

namespace {

enum class Looked { Missing, NotBegun, Begun };

Looked look_at_segment(const std::filesystem::path& path, uint32_t number,
                       std::optional<OpenSegment>& found) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open() && errno == ENOENT) return Looked::Missing;
  if (!file.is_open()) throw errno_error(fmt::format("cannot read {}", path.string()));
  const auto continued = decode_continued(read_log_piece(file.get(), 0, kFirstCopy));
  if (!continued || continued->number != number) return Looked::NotBegun;
  auto beginning = decode_beginning(read_log_piece(file.get(), 0, continued->bytes));
  if (!beginning) return Looked::NotBegun;
  found = OpenSegment{std::move(file), std::move(*beginning)};
  return Looked::Begun;
}

}  // namespace

std::optional<OpenSegment> next_segment(const std::filesystem::path& log, uint32_t number) {
  std::optional<OpenSegment> found;
  auto last = number;
  while (!found) {
    ++last;
    if (look_at_segment(segment_path(log, last), last, found) == Looked::Missing)
      return std::nullopt;
  }
  // A segment that was incomplete when it was skipped may have been completed and filled since. Now
  // that a later one exists, those before it are final.
  for (auto between = number + 1; between < last; ++between)
    if (look_at_segment(segment_path(log, between), between, found) == Looked::Begun) break;
  return found;
}

}  // namespace lockstep::tracking
