#include "catalog/index/recorded_console.h"

#include <algorithm>

#include "catalog/index/log_record.h"

namespace lockstep {
namespace {

constexpr uint64_t kPartBytes = 64u << 10;  // of the log

}  // namespace

void RecordedConsole::add(const ConsoleLine& line, uint64_t begin, uint64_t end) {
  if (parts.empty() || end - parts.back().begin > kPartBytes)
    parts.push_back({.at = bytes, .begin = begin});
  parts.back().end = end;
  bytes += line.line.size() + 1;
  modified = std::max(modified, line.time);
}

std::string RecordedConsole::read(uint64_t from, size_t most_bytes) const {
  const auto end = std::min<uint64_t>(bytes, from + most_bytes);
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

}  // namespace lockstep
