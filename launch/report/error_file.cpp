#include "launch/report/error_file.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "core/system/durable_file.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxErrorFileBytes = 1u << 20;
constexpr int64_t kLastTime = 253'402'300'800'000'000;  // the year 10000

ordered_json error_file_json(const ErrorReport& report) {
  const auto time_us = report.timestamp_us ? report.timestamp_us : unix_time_us();
  // No "py_callstack": torchrun would show that, even when it is empty, in place of the message.
  const ordered_json extra = {{"timestamp", std::to_string(time_us / 1'000'000)},
                              {"kind", report.kind},
                              {"peer", report.peer},
                              {"timestamp_us", time_us}};
  return {{"message", {{"message", report.message}, {"extraInfo", extra}}}};
}

std::string text_or(const ordered_json& json, const char* key, const std::string& otherwise) {
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : otherwise;
}

// 0: unknown.
int64_t time_of(const ordered_json& extra) {
  const auto exact = extra.find("timestamp_us");
  if (exact != extra.end() && exact->is_number_integer()) {
    const auto time = exact->get<int64_t>();
    return time > 0 && time < kLastTime ? time : 0;
  }
  const auto seconds = text_or(extra, "timestamp", "0");
  const bool is_number = !seconds.empty() && seconds.size() <= 12 &&
                         seconds.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? std::stoll(seconds) * 1'000'000 : 0;
}

std::string error_text(const ErrorReport& report) {
  return error_file_json(report).dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::optional<ErrorReport> parse_error_text(const std::string& text) {
  const auto json = ordered_json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("message")) return std::nullopt;
  const auto& message = json["message"];
  if (message.is_string()) return ErrorReport{.message = message.get<std::string>()};
  if (!message.is_object()) return std::nullopt;
  ErrorReport report{.message = text_or(message, "message", "")};
  const auto extra = message.find("extraInfo");
  if (extra == message.end() || !extra->is_object()) return report;
  report.kind = text_or(*extra, "kind", report.kind);
  const auto peer = extra->find("peer");
  report.peer = peer != extra->end() && peer->is_boolean() && peer->get<bool>();
  report.timestamp_us = time_of(*extra);
  return report;
}

}  // namespace

ErrorReport describe_error(const std::exception& error) {
  ErrorReport report{.message = message_of(error),
                     .kind = kind_name(kind_of(error)),
                     .timestamp_us = unix_time_us()};
  report.peer = dynamic_cast<const PeerError*>(&error) != nullptr;
  return report;
}

bool write_error_file(const std::filesystem::path& path, const ErrorReport& report) noexcept {
  try {
    write_file_durably(path, error_text(report));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

bool write_error_file(const std::filesystem::path& path, const std::exception& error) noexcept {
  try {
    return write_error_file(path, describe_error(error));
  } catch (const std::exception&) {
    return false;
  }
}

std::optional<ErrorReport> read_error_file(const std::filesystem::path& path) {
  try {
    return parse_error_text(read_file(path, kMaxErrorFileBytes));
  } catch (const Error&) {
    return std::nullopt;
  }
}

void report_failure(ProgressPage& page, const ErrorReport& report) noexcept {
  try {
    auto shortened = report;
    auto text = error_text(shortened);
    while (text.size() > ProgressPage::kMaxFailureBytes) {  // escaping may enlarge the text
      shortened.message.resize(shortened.message.size() / 2);
      text = error_text(shortened);
    }
    page.report_failure(text);
  } catch (const std::exception&) {
    // The exit code still indicates the kind of failure.
  }
}

std::optional<ErrorReport> read_failure(const ProgressPage& page) {
  return parse_error_text(page.failure());
}

int exit_code_of(const ErrorReport& report) {
  for (const auto kind : {ErrorKind::Config, ErrorKind::Environment})
    if (report.kind == kind_name(kind)) return static_cast<int>(kind);
  return static_cast<int>(ErrorKind::Bug);
}

int64_t unix_time_us() {
  using namespace std::chrono;
  return duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace lockstep::launch
