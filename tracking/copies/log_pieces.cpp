#include "tracking/copies/log_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "core/number_text.h"
#include "tracking/copies/log_copy.h"

namespace lockstep::tracking {
namespace {

constexpr std::string_view kEventsFolder = "events/";
constexpr uint64_t kMaxPieceBytes = 64 * kLogPieceBytes;  // of pieces of other versions

std::optional<LogPiece> piece_of(const formats::ObjectInfo& object, std::string_view name) {
  const auto dash = name.find('-');
  if (dash == name.npos) return std::nullopt;
  const auto begin = parse_number<uint64_t>(name.substr(0, dash));
  const auto end = parse_number<uint64_t>(name.substr(dash + 1));
  const bool is_valid = begin && end && *begin < *end && *end - *begin <= kMaxPieceBytes &&
                        static_cast<uint64_t>(object.size) == *end - *begin;
  return is_valid ? std::optional(LogPiece{*begin, *end, object}) : std::nullopt;
}

}  // namespace

std::map<std::string, std::vector<LogPiece>> log_pieces(
    const std::vector<formats::ObjectInfo>& objects) {
  std::map<std::string, std::vector<LogPiece>> logs;
  for (const auto& object : objects) {
    const std::string_view key = object.key;
    const auto slash = key.rfind('/');
    if (!key.starts_with(kEventsFolder) || slash < kEventsFolder.size()) continue;
    const std::string segment(key.substr(kEventsFolder.size(), slash - kEventsFolder.size()));
    const auto piece = piece_of(object, key.substr(slash + 1));
    if (piece && is_event_log_name(segment)) logs[segment].push_back(*piece);
  }
  return logs;
}

std::vector<LogPiece> without_replaced(const std::vector<LogPiece>& pieces) {
  std::map<uint64_t, const LogPiece*> longest;
  for (const auto& piece : pieces) {
    auto& known = longest[piece.begin];
    if (!known || piece.end > known->end) known = &piece;
  }
  std::vector<LogPiece> log;
  for (auto next = longest.find(0); next != longest.end(); next = longest.find(log.back().end))
    log.push_back(*next->second);
  return log;
}

std::string folder_of_segment(const std::string& segment) {
  return std::string(kEventsFolder) + segment;
}

std::string piece_name(const std::string& segment, uint64_t begin, uint64_t end) {
  return fmt::format("{}/{}-{}", folder_of_segment(segment), begin, end);
}

}  // namespace lockstep::tracking
