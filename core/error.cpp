#include "lockstep/error.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "core/thread_limit.h"

namespace lockstep {
namespace {

// Whether std::thread failed to start a thread.
bool is_about_threads(const std::exception& error) {
  const auto* known = dynamic_cast<const std::system_error*>(&error);
  return known && known->code() == std::errc::resource_unavailable_try_again;
}

}  // namespace

ErrorKind kind_of(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) return known->kind();
  return is_about_threads(error) ? ErrorKind::Environment : ErrorKind::Bug;
}

std::string message_of(const std::exception& error) {
  if (dynamic_cast<const Error*>(&error)) return error.what();
  if (!is_about_threads(error)) {
    const std::string text = error.what();
    return text.substr(0, text.find('\n'));
  }
  return fmt::format("cannot start a thread: {}; {}", error.what(), describe_thread_limit());
}

Error errno_error(const std::string& what) {
  return environment_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

void check(bool condition, const char* message, std::source_location where) {
  if (condition) return;
  throw Error(ErrorKind::Bug, fmt::format("{}:{}: {} (a bug in Lockstep: please report it)",
                                          where.file_name(), where.line(), message));
}

const char* kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Bug: return "bug";
    case ErrorKind::Environment: return "environment";
    case ErrorKind::Config: return "config";
  }
  return "bug";
}

}  // namespace lockstep
