// The one exception type of Lockstep. Its kind says what the caller can do about it, and is the
// process's exit code.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

namespace lockstep {

// Values are those of sysexits.h, so that a launcher or scheduler can decide from the exit code
// alone.
enum class ErrorKind {
  Bug = 70,          // a broken invariant: report it
  Environment = 75,  // a peer, a disk, a device or a server failed: a restart may help
  Config = 78,       // the input is wrong: fix it, do not restart
};

// Message: one line that a person can act on (what, where, what is valid).
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}

  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
};

// A peer could not be reached or died during a collective, or told this rank of its own failure. A
// launcher that sees several failed ranks names another one as the cause.
class PeerError : public Error {
 public:
  explicit PeerError(const std::string& message, ErrorKind kind = ErrorKind::Environment)
      : Error(kind, message) {}
};

inline Error config_error(const std::string& message) { return {ErrorKind::Config, message}; }
inline Error environment_error(const std::string& message) {
  return {ErrorKind::Environment, message};
}

// `what`: strerror(errno) is appended, so call it directly after the failed system call.
Error errno_error(const std::string& what);

// Throws Bug, naming the place, when `condition` does not hold.
void check(bool condition, const char* message,
           std::source_location where = std::source_location::current());

// Of any exception: an Error's own kind; a thread that cannot be started is the environment's
// fault; anything else is a bug.
ErrorKind kind_of(const std::exception& error);
// What it says, in one line unless it is an Error: LibTorch's exceptions carry a stack behind it.
// Of a thread that cannot be started, with the limit that was hit.
std::string message_of(const std::exception& error);

// "config", "environment" or "bug".
const char* kind_name(ErrorKind kind);

}  // namespace lockstep
