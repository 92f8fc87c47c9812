#include "core/error.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace lockstep {

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
