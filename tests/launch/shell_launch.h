// Launches of small shell scripts: the console goes to files of a temporary directory.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <string>

#include "core/system/file_descriptor.h"
#include "launch/launcher.h"
#include "tests/launch/environment_guard.h"
#include "tests/launch/text_of.h"
#include "tests/temporary_directory.h"

namespace lockstep::launch {

class ShellLaunch {
 public:
  // A script runs with the temporary directory as $DIR.
  explicit ShellLaunch(const std::string& script, int num_workers = 1) {
    environment_.set("DIR", directory_.path().c_str());
    options.program = "/bin/sh";
    options.arguments = {"-c", script};
    options.num_workers = num_workers;
    keep_logs_in("logs");
    options.stdout_fd = out_.get();
    options.stderr_fd = err_.get();
  }

  // Below the temporary directory, or at an absolute path.
  void keep_logs_in(const std::string& name) { log_dir_ = path(name); }
  LaunchReport run() const {
    return run_workers(options,
                       [this](const std::string&, int) { return claim_attempt(log_dir_); });
  }

  std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }
  std::string console() const { return text_of(path("console.out")); }
  std::string console_errors() const { return text_of(path("console.err")); }
  std::string log(int local_rank, const std::string& name) const {
    return text_of(path("logs") / "attempt_0" / std::to_string(local_rank) / name);
  }

 private:
  FileDescriptor open_console(const std::string& name) const {
    return FileDescriptor(::open(path(name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  }

  std::filesystem::path log_dir_;
  EnvironmentGuard environment_;
  TemporaryDirectory directory_;
  FileDescriptor out_ = open_console("console.out"), err_ = open_console("console.err");

 public:
  LaunchOptions options;
};

// A named pipe that scripts write to: the test waits for data, or until no process has it
// open anymore.
class Fifo {
 public:
  explicit Fifo(const std::filesystem::path& path) {
    if (::mkfifo(path.c_str(), 0600) != 0)
      throw std::runtime_error("cannot create " + path.string());
    fd_ = FileDescriptor(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }

  // The next bytes that were written, or "" if there are none within the limit.
  std::string read(int limit_ms = 60'000) const {
    pollfd request = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
    char buffer[256];
    if (::poll(&request, 1, limit_ms) <= 0) return "";
    const auto got = ::read(fd_.get(), buffer, sizeof buffer);
    return got > 0 ? std::string(buffer, static_cast<size_t>(got)) : "";
  }

  // Whether all processes that had it open are gone within the limit. Requires at least one.
  bool is_deserted(int limit_ms = 60'000) const {
    pollfd request = {.fd = fd_.get(), .events = 0, .revents = 0};
    return ::poll(&request, 1, limit_ms) == 1 && (request.revents & POLLHUP) != 0;
  }

 private:
  FileDescriptor fd_;
};

}  // namespace lockstep::launch
