#include "launch/workers/start_failure.h"

#include <fmt/format.h>

#include <string_view>

namespace lockstep::launch {
namespace {

constexpr int kSshFailed = 255, kNotFound = 127, kNotExecutable = 126;

struct Remedy {
  std::string_view pattern;  // in the message of ssh
  ErrorKind kind;
  std::string_view advice;
};
constexpr Remedy kRemedies[] = {
    {"Permission denied", ErrorKind::Config,
     "'ssh {0} true' must work without a password: add your public key to ~/.ssh/authorized_keys "
     "there, or unlock it with ssh-add"},
    {"Host key verification failed", ErrorKind::Config,
     "ssh does not know this host, or it has changed: connect once manually with 'ssh {0}'"},
    {"Name or service not known", ErrorKind::Config, "check the name in the hostfile"},
    {"Bad configuration option", ErrorKind::Config, "check ~/.ssh/config"},
    {"", ErrorKind::Environment,
     "check that the host is up and runs an SSH server on that port: 'ssh {0} true' must work"},
};

Error ssh_failure(const std::string& host, const std::string& last_line) {
  for (const auto& remedy : kRemedies)
    if (last_line.find(remedy.pattern) != std::string::npos)
      return {remedy.kind, fmt::format("cannot start on {}: {}; {}", host,
                                       last_line.empty() ? "ssh gave no reason" : last_line,
                                       fmt::format(fmt::runtime(remedy.advice), host))};
  return environment_error(fmt::format("cannot start on {}", host));
}

}  // namespace

Error start_failure(const std::string& host, const std::string& program, const ProcessExit& exit,
                    const std::string& last_line) {
  constexpr std::string_view kOwnError = "lockstep: error: ";
  if (exit.signal)
    return environment_error(fmt::format(
        "cannot start on {}: the connection was killed by signal {}", host, *exit.signal));
  if (last_line.starts_with(kOwnError)) {
    const auto kind = exit.code == static_cast<int>(ErrorKind::Config) ? ErrorKind::Config
                                                                       : ErrorKind::Environment;
    return {kind, fmt::format("cannot start on {}: {}", host, last_line.substr(kOwnError.size()))};
  }
  if (exit.code == kSshFailed) return ssh_failure(host, last_line);
  if (exit.code == kNotFound || exit.code == kNotExecutable)
    return config_error(fmt::format(
        "cannot start on {}: {} {} there; install the same Lockstep on every host, or "
        "give its path with --remote-lockstep PATH",
        host, program, exit.code == kNotFound ? "was not found" : "cannot be executed"));
  return environment_error(fmt::format("cannot start on {}: {} exited with code {}{}{}", host,
                                       program, exit.code, last_line.empty() ? "" : ": ",
                                       last_line));
}

}  // namespace lockstep::launch
