#include "tracking/sinks/tensorboard/event_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/system/crc32c.h"
#include "lockstep/error.h"

namespace lockstep::tracking::tensorboard {
namespace {

// Members of Event.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr int kUnknownMember = 15;  // skipped by readers
constexpr uint64_t kStartStatus = 1;
constexpr std::string_view kEventFilePrefix = "events.out.tfevents.";
constexpr size_t kFrameBytes = 16;

uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes.data(), bytes.size()), 15) + 0xa282ead8u;
}

template <class T>
void append_little_endian(std::string& out, T value) {
  for (size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

ProtobufWriter event_at(double time, int64_t step) {
  ProtobufWriter event;
  event.float64(kWallTime, time);
  event.int64(kStep, step);
  return event;
}

ProtobufWriter summary_event(double time, int64_t step, const ProtobufWriter& value) {
  ProtobufWriter summary;
  summary.message(1, value);
  auto event = event_at(time, step);
  event.message(kSummary, summary);
  return event;
}

std::string event_file_name(const std::filesystem::path& directory, const RunInfo& info,
                            const Json& state) {
  if (state.is_object()) return state.at("file");
  // Left by a process that was killed before its first flush.
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    auto name = entry.path().filename().string();
    if (name.starts_with(kEventFilePrefix)) return name;
  }
  auto host = info.host;
  std::ranges::replace(host, '/', '-');
  const auto seconds = static_cast<int64_t>(std::clamp(info.created, 0.0, 9999999999.0));
  return fmt::format("{}{:010}.{}.{}.0", kEventFilePrefix, seconds, host, info.pid);
}

}  // namespace

std::string framed(std::string_view event) {
  std::string record;
  append_little_endian(record, uint64_t{event.size()});
  append_little_endian(record, masked_crc(record));
  record += event;
  append_little_endian(record, masked_crc(event));
  return record;
}

EventFile::EventFile(const std::filesystem::path& directory, const RunInfo& info, const Json& state)
    : file_(directory / event_file_name(directory, info, state),
            state.is_object() ? state.at("length").get<uint64_t>() : 0) {
  if (state.is_object() && file_.length() == state.at("length")) {
    end_bytes_ = state.at("end");
    return;
  }
  if (file_.length() > 0)
    throw config_error(fmt::format(
        "{} is shorter than its stored length: remove it to continue without its contents",
        file_.path().string()));
  is_new_ = true;
  tracking::ProtobufWriter version;
  version.float64(kWallTime, info.created);
  version.bytes(kFileVersion, "brain.Event:2");
  append(version);
  restart(info.created, 0);  // the first one is not yet a restart
}

void EventFile::add(double time, int64_t step, const ProtobufWriter& value) {
  append(summary_event(time, step, value));
}

void EventFile::restart(double time, int64_t step) {
  tracking::ProtobufWriter session;
  session.varint(1, kStartStatus);
  auto event = event_at(time, step);
  event.message(kSessionLog, session);
  append(event);
}

void EventFile::add_end(double time, const ProtobufWriter& value) {
  const auto before = file_.length();
  append(summary_event(time, 0, value));
  end_bytes_ = file_.length() - before;
}

Json EventFile::flush() {
  file_.flush();
  return {
      {"file", file_.path().filename().string()}, {"length", file_.length()}, {"end", end_bytes_}};
}

void EventFile::append(const ProtobufWriter& event) {
  if (end_bytes_ > 0) overwrite_end();
  file_.append(framed(event.view()));
}

// Replaces the end event with an empty record of the same size.
void EventFile::overwrite_end() {
  constexpr size_t kMemberHead = 2;
  tracking::ProtobufWriter padding;
  padding.bytes(kUnknownMember, std::string(end_bytes_ - kFrameBytes - kMemberHead, ' '));
  const auto record = framed(padding.view());
  check(record.size() == end_bytes_, "size of the replaced end event does not match");
  file_.flush();
  file_.overwrite(file_.length() - end_bytes_, record);
  end_bytes_ = 0;
}

}  // namespace lockstep::tracking::tensorboard
