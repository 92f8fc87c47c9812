// The exception type of Lockstep. Its kind says what the caller can do about the error, and is the
// exit code of the process.
//
// Example:
//   int run(const std::function<void()>& train) {
//     try {
//       train();
//       return 0;
//     } catch (const lockstep::Error& error) {
//       std::fprintf(stderr, "my_trainer: error: %s\n", error.what());
//       return error.exit_code();
//     }
//   }
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

// A peer could not be reached, died during a collective, or reported its own failure to this rank.
// Of several failed ranks, a launcher names one without a PeerError as the cause.
class PeerError : public Error {
 public:
  explicit PeerError(const std::string& message, ErrorKind kind = ErrorKind::Environment)
      : Error(kind, message) {}
};

inline Error config_error(const std::string& message) { return {ErrorKind::Config, message}; }
inline Error environment_error(const std::string& message) {
  return {ErrorKind::Environment, message};
}

// `what` with strerror(errno) appended. Call it directly after the failed system call.
Error errno_error(const std::string& what);

// Throws Bug, with the caller's file and line, when `condition` does not hold.
void check(bool condition, const char* message,
           std::source_location where = std::source_location::current());

// The kind of any exception: an Error's own kind; Environment when a thread could not be started;
// Bug for anything else.
ErrorKind kind_of(const std::exception& error);

// The message of any exception. Of LibTorch's exceptions the first line, without the stack; of a
// thread that could not be started, with the limit that was reached.
std::string message_of(const std::exception& error);

// "config", "environment" or "bug".
const char* kind_name(ErrorKind kind);

}  // namespace lockstep
