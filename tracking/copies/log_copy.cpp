#include "tracking/copies/log_copy.h"

#include <algorithm>
#include <string_view>

#include "core/system/crc32c.h"
#include "lockstep/error.h"
#include "tracking/log/event_log_segment.h"

namespace lockstep::tracking {
namespace {

constexpr size_t kMaxNameDigits = 10;

bool is_digits(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameDigits &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

uint32_t crc_of_piece(int file, uint64_t offset, uint64_t size) {
  const auto bytes = read_log_piece(file, offset, size);
  if (bytes.size() < size) throw environment_error("an event log was truncated");
  return crc32c(bytes.data(), bytes.size());
}

}  // namespace

nlohmann::json to_json(const LogCopy& copy) {
  return {{"size", copy.size}, {"begin_crc", copy.begin_crc}, {"end_crc", copy.end_crc}};
}

std::optional<LogCopy> log_copy_from_json(const nlohmann::json& json) {
  if (!json.is_object()) return std::nullopt;
  for (const auto* name : {"size", "begin_crc", "end_crc"})
    if (!json.contains(name) || !json[name].is_number_unsigned()) return std::nullopt;
  return LogCopy{json["size"].get<uint64_t>(), json["begin_crc"].get<uint32_t>(),
                 json["end_crc"].get<uint32_t>()};
}

LogCopy measure_copy(int file, uint64_t size) {
  const auto compared = std::min(size, kComparedBytes);
  return {size, crc_of_piece(file, 0, compared), crc_of_piece(file, size - compared, compared)};
}

// rank-00003.lsev, node-00001.lsev, rank-00003.2.lsev
bool is_event_log_name(const std::string& name) {
  std::string_view rest = name;
  if (!rest.starts_with("rank-") && !rest.starts_with("node-")) return false;
  rest.remove_prefix(5);
  if (!rest.ends_with(".lsev")) return false;
  rest.remove_suffix(5);
  const auto dot = rest.find('.');
  return is_digits(rest.substr(0, dot)) &&
         (dot == std::string_view::npos || is_digits(rest.substr(dot + 1)));
}

}  // namespace lockstep::tracking
