#include "tracking/event_log_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>

#include "core/durable_file.h"
#include "core/file_descriptor.h"
#include "tracking/event_frame.h"
#include "tracking/message_pack.h"

namespace lockstep {
namespace {

constexpr size_t kLargestLog = size_t{4} << 30;

// The apply functions return false for a payload that does not follow the grammar, which is treated
// as damage.

bool apply_identity(std::string_view payload, LogContents& log) {
  const auto json = from_message_pack(payload);
  auto info = json ? run_info_from_json(*json) : std::nullopt;
  if (!info) return false;
  if (log.info) info->created = log.info->created;
  log.info = std::move(info);
  log.end.reset();
  return true;
}

bool apply_config(std::string_view payload, LogContents& log) {
  auto json = from_message_pack(payload);
  if (!json) return false;
  log.config = std::move(*json);
  return true;
}

bool apply_key(std::string_view payload, LogContents& log) {
  PayloadReader reader(payload);
  uint32_t id = 0;
  if (!reader.take(id) || id != log.keys.size()) return false;
  const auto name = reader.rest();
  if (name.empty() || name.size() > kMaxMetricNameBytes) return false;
  log.keys.emplace_back(name);
  return true;
}

bool apply_scalars(std::string_view payload, LogContents& log) {
  PayloadReader reader(payload);
  LoggedRow row;
  if (!reader.take(row.step) || !reader.take(row.time) || !reader.take(row.epoch)) return false;
  std::pair<uint32_t, double> value;
  while (!reader.rest().empty()) {
    if (!reader.take(value.first) || !reader.take(value.second) || value.first >= log.keys.size())
      return false;
    row.values.push_back(value);
  }
  log.rows.push_back(std::move(row));
  return true;
}

bool apply_text(std::string_view payload, LogContents& log) {
  PayloadReader reader(payload);
  LoggedText text;
  uint8_t level = 0;
  if (!reader.take(text.time) || !reader.take(level) ||
      level > static_cast<uint8_t>(TextLevel::Error))
    return false;
  text.level = static_cast<TextLevel>(level);
  text.line = reader.rest();
  log.texts.push_back(std::move(text));
  return true;
}

bool apply_rewind(std::string_view payload, LogContents& log) {
  PayloadReader reader(payload);
  int64_t step = 0;
  if (!reader.take(step) || !reader.rest().empty()) return false;
  std::erase_if(log.rows, [&](const LoggedRow& row) { return row.step > step; });
  return true;
}

bool apply_summary(std::string_view payload, LogContents& log) {
  const auto json = from_message_pack(payload);
  if (!json || !json->is_object()) return false;
  log.summary.update(*json);
  return true;
}

bool apply_end(std::string_view payload, LogContents& log) {
  const auto json = from_message_pack(payload);
  auto end = json ? run_end_from_json(*json) : std::nullopt;
  if (!end) return false;
  log.end = std::move(end);
  return true;
}

bool apply(const Frame& frame, LogContents& log) {
  switch (static_cast<FrameType>(frame.type)) {
    case FrameType::Identity: return apply_identity(frame.payload, log);
    case FrameType::Config: return apply_config(frame.payload, log);
    case FrameType::Key: return apply_key(frame.payload, log);
    case FrameType::Scalars: return apply_scalars(frame.payload, log);
    case FrameType::Text: return apply_text(frame.payload, log);
    case FrameType::Rewind: return apply_rewind(frame.payload, log);
    case FrameType::Summary: return apply_summary(frame.payload, log);
    case FrameType::End: return apply_end(frame.payload, log);
  }
  return true;
}

bool all_zero(std::string_view bytes) {
  return bytes.find_first_not_of('\0') == std::string_view::npos;
}

// False when frames must not be read; then `log` says why, unless the file is only empty or cut in
// its header.
bool check_header(std::string_view bytes, LogContents& log) {
  const auto magic = bytes.substr(0, kEventLogMagic.size());
  if (all_zero(bytes)) return false;
  if (magic != kEventLogMagic.substr(0, magic.size())) {
    log.problem = "not an event log";
    return false;
  }
  if (bytes.size() < kEventLogHeaderBytes) {
    log.torn = true;
    return false;
  }
  uint32_t version = 0;
  PayloadReader(bytes.substr(kEventLogMagic.size())).take(version);
  if (version == kEventLogVersion) return true;
  log.problem = fmt::format("event log of format version {}, this program reads version {}",
                            version, kEventLogVersion);
  return false;
}

}  // namespace

const char* level_name(TextLevel level) {
  switch (level) {
    case TextLevel::Debug: return "debug";
    case TextLevel::Info: return "info";
    case TextLevel::Warning: return "warning";
    case TextLevel::Error: return "error";
  }
  return "info";
}

LogContents decode_event_log(std::string_view bytes) {
  LogContents log;
  if (!check_header(bytes, log)) return log;
  FrameCursor cursor(bytes);
  log.good_bytes = cursor.offset();
  while (const auto frame = cursor.next()) {
    if (!apply(*frame, log)) break;
    log.good_bytes = cursor.offset();
    ++log.num_frames;
  }
  log.torn = !all_zero(bytes.substr(log.good_bytes));
  return log;
}

LogContents read_event_log(const std::filesystem::path& path) {
  return decode_event_log(read_file(path, kLargestLog));
}

bool has_writer(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file.is_open() && ::flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace lockstep
