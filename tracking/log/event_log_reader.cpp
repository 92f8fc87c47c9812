#include "tracking/log/event_log_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>

#include "core/system/durable_file.h"
#include "core/system/file_descriptor.h"
#include "tracking/log/event_log_segment.h"

namespace lockstep::tracking {
namespace {

constexpr size_t kMaxLogBytes = size_t{4} << 30;

// Collects records into a LogContents; skips those without a field there.
struct Collector {
  LogContents& log;

  void operator()(RunInfo&& info) {
    log.info = continued_from(log.info, std::move(info));
    log.end.reset();
  }
  void operator()(ConfigRecord&& record) { log.config = std::move(record.config); }
  void operator()(KeyRecord&& key) { log.keys.push_back(std::move(key.name)); }
  void operator()(LoggedRow&& row) { log.rows.push_back(std::move(row)); }
  void operator()(TextLine&& text) { log.texts.push_back(std::move(text)); }
  void operator()(RewindRecord&& rewind) {
    std::erase_if(log.rows, [&](const LoggedRow& row) { return row.step > rewind.step; });
  }
  void operator()(SummaryRecord&& summary) { log.summary.update(summary.values); }
  void operator()(RunEnd&& end) { log.end = std::move(end); }
  void operator()(Alert&& alert) { log.alerts.push_back(std::move(alert)); }
  void operator()(ArtifactUse&& artifact) { log.artifacts.push_back(std::move(artifact)); }
  template <class Other>
  void operator()(Other&&) {}
};

bool all_zero(std::string_view bytes) {
  return bytes.find_first_not_of('\0') == std::string_view::npos;
}

// False if frames must not be read; `log` then has the reason, unless the file is only empty or cut
// within its header.
bool check_header(std::string_view bytes, LogContents& log) {
  if (all_zero(bytes)) return false;
  log.problem = log_header_problem(bytes);
  if (!log.problem.empty()) return false;
  const bool is_cut = bytes.size() < kEventLogHeaderBytes;
  log.torn |= is_cut;
  return !is_cut;
}

// The copies repeat known state, but restore what was corrupt before them. Rows have indices into
// `log.keys`, which therefore never shrinks.
void take_state(LogState&& state, LogContents& log) {
  if (state.info) log.info = std::move(state.info);
  if (!state.config.is_null()) log.config = std::move(state.config);
  if (state.keys.size() >= log.keys.size()) log.keys = std::move(state.keys);
}

void decode_segment(std::string_view bytes, LogContents& log) {
  if (!check_header(bytes, log)) return;
  size_t good = kEventLogHeaderBytes;
  if (auto beginning = decode_beginning(bytes)) {
    take_state(std::move(beginning->state), log);
    good = beginning->bytes;
  }
  FrameCursor cursor(bytes, good);
  while (const auto frame = cursor.next()) {
    auto record = decode_record(*frame, log.keys.size());
    if (!record) break;
    std::visit(Collector{log}, std::move(*record));
    good = cursor.offset();
    ++log.num_frames;
  }
  log.good_bytes += good;
  log.torn |= !all_zero(bytes.substr(good));
}

}  // namespace

}  // namespace lockstep::tracking

namespace lockstep {

const char* level_name(TextLevel level) {
  switch (level) {
    case TextLevel::Debug: return "debug";
    case TextLevel::Info: return "info";
    case TextLevel::Warning: return "warning";
    case TextLevel::Error: return "error";
  }
  return "info";
}

}  // namespace lockstep

namespace lockstep::tracking {

std::string log_header_problem(std::string_view bytes) {
  const auto magic = bytes.substr(0, kEventLogMagic.size());
  if (all_zero(bytes)) return "";
  if (magic != kEventLogMagic.substr(0, magic.size())) return "not an event log";
  uint32_t version = kEventLogVersion;
  if (bytes.size() >= kEventLogHeaderBytes)
    PayloadReader(bytes.substr(kEventLogMagic.size())).take(version);
  if (version < kEventLogVersion) return "not an event log";  // there was no such version
  if (version <= kNewestEventLogVersion) return "";
  return fmt::format(
      "written by a later version of Lockstep (event log format {}; this one reads {})", version,
      kNewestEventLogVersion);
}

LogContents decode_event_log(std::string_view bytes) {
  LogContents log;
  decode_segment(bytes, log);
  return log;
}

LogContents read_event_log(const std::filesystem::path& path) {
  LogContents log;
  uint32_t number = 0;
  while (true) {
    const auto next = next_segment(path, number);  // first: if there is one, this one is final
    decode_segment(read_file(segment_path(path, number), kMaxLogBytes), log);
    if (!next || !log.problem.empty()) break;
    number = next->beginning.number;
  }
  log.torn |= has_log_magic(segment_path(path, number + 1));
  return log;
}

LogContents read_log_segment(const std::filesystem::path& path) {
  return decode_event_log(read_file(path, kMaxLogBytes));
}

bool has_writer(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file.is_open() && ::flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace lockstep::tracking
