#include "catalog/index/log_record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>

#include "lockstep/error.h"
#include "tracking/log/event_log_segment.h"

namespace lockstep::catalog {
namespace {

constexpr uint64_t kPartBytes = 64u << 10;  // of the log

struct SegmentFile {
  FileDescriptor file;
  uint64_t begin = 0, size = 0;  // in the whole log
  uint64_t first = 0;            // offset of its new records, within it
};

uint64_t size_of_segment(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

// The segment that contains byte `offset`, or the last one.
SegmentFile segment_at(const std::filesystem::path& log, uint64_t offset) {
  SegmentFile segment{.file = FileDescriptor(::open(log.c_str(), O_RDONLY | O_CLOEXEC)),
                      .first = tracking::kEventLogHeaderBytes};
  if (!segment.file.is_open()) throw errno_error(fmt::format("cannot read {}", log.string()));
  uint32_t number = 0;
  while (true) {
    segment.size = size_of_segment(segment.file.get());
    if (offset <= segment.begin + segment.size) return segment;
    auto next = tracking::next_segment(log, number);
    if (!next) return segment;
    number = next->beginning.number;
    segment = {.file = std::move(next->file),
               .begin = segment.begin + segment.size,
               .size = 0,
               .first = next->beginning.bytes};
  }
}

// The console lines among the records between bytes `begin` and `end` of the log.
template <class Take>
void visit_console_lines(const std::filesystem::path& log, uint64_t begin, uint64_t end,
                         const Take& take) {
  while (begin < end) {
    const auto segment = segment_at(log, begin + 1);
    const auto last = std::min(end, segment.begin + segment.size);
    const auto from = std::max(begin, segment.begin + segment.first);
    if (from >= last) return;
    const auto bytes =
        tracking::read_log_piece(segment.file.get(), from - segment.begin, last - from);
    tracking::FrameCursor cursor(bytes, 0);
    while (const auto frame = cursor.next()) {
      if (frame->type != static_cast<uint8_t>(tracking::FrameType::Console)) continue;
      const auto record = decode_record(*frame, 0);
      if (const auto* line = record ? std::get_if<ConsoleLine>(&*record) : nullptr) take(*line);
    }
    begin = last;
  }
}

}  // namespace

std::optional<tracking::Record> read_log_record(const std::filesystem::path& log, uint64_t begin,
                                                uint64_t end) {
  const auto segment = segment_at(log, end);
  if (end <= segment.begin + segment.first || end > segment.begin + segment.size)
    return std::nullopt;
  const auto from = std::max(begin, segment.begin + segment.first);
  const auto bytes = tracking::read_log_piece(segment.file.get(), from - segment.begin, end - from);
  tracking::FrameCursor cursor(bytes, 0);
  std::optional<tracking::Record> last;
  while (const auto frame = cursor.next())
    if (cursor.offset() == bytes.size()) last = decode_record(*frame, 0);
  return last;
}

void RecordedConsole::add(const ConsoleLine& line, uint64_t begin, uint64_t end) {
  if (parts.empty() || end - parts.back().begin > kPartBytes)
    parts.push_back({.at = bytes, .begin = begin});
  parts.back().end = end;
  bytes += line.line.size() + 1;
  modified = std::max(modified, line.time);
}

std::string RecordedConsole::read(uint64_t from, size_t max_bytes) const {
  const auto end = std::min<uint64_t>(bytes, from + max_bytes);
  std::string text;
  if (from >= end) return text;
  auto part = std::ranges::upper_bound(parts, from, {}, &Part::at) - 1;
  const auto begin = part->at;
  for (; part != parts.end() && part->at < end; ++part)
    visit_console_lines(log, part->begin, part->end, [&](const ConsoleLine& line) {
      if (is_from(line)) text += line.line + '\n';
    });
  return text.substr(std::min<uint64_t>(from - begin, text.size()), end - from);
}

}  // namespace lockstep::catalog
