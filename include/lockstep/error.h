// The exception type of Lockstep. Its kind tells the caller how to respond and determines the exit
// code of the process.
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

// The values are exit codes of sysexits.h, so that launchers and schedulers can act on the exit
// code alone.
enum class ErrorKind {
  Bug = 70,          // an invariant is violated: report it
  Environment = 75,  // a peer, disk, device or server failed: a restart may help
  Config = 78,       // the input is invalid: fix it; a restart fails again
};

// The message is one actionable line: what failed, where, and what is valid.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}

  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
};

// A peer could not be reached, died during a collective, or reported its failure to this rank. If
// several ranks fail, the launcher reports one without a PeerError as the cause.
class PeerError : public Error {
 public:
  explicit PeerError(const std::string& message, ErrorKind kind = ErrorKind::Environment)
      : Error(kind, message) {}
};

inline Error config_error(const std::string& message) { return {ErrorKind::Config, message}; }
inline Error environment_error(const std::string& message) {
  return {ErrorKind::Environment, message};
}

// An Environment error: `what` with strerror(errno) appended. Call it immediately after the failed
// system call.
Error errno_error(const std::string& what);

// Throws Bug, with the caller's file and line, if `condition` is false. `message` describes the
// failure.
void check(bool condition, const char* message,
           std::source_location where = std::source_location::current());

// The kind of any exception: Error::kind() for an Error, Environment if a thread could not be
// started, Bug otherwise.
ErrorKind kind_of(const std::exception& error);

// The message of any exception. For LibTorch exceptions, the first line without the stack trace; if
// a thread could not be started, includes the limit that was reached.
std::string message_of(const std::exception& error);

// "config", "environment" or "bug".
const char* kind_name(ErrorKind kind);

}  // namespace lockstep
