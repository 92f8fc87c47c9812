// One run of wandb-core, which ends with this object at the latest.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "core/file_descriptor.h"
#include "tracking/sink.h"

namespace lockstep {

// Thread: the kernel kills wandb-core when the thread that made the object ends, whatever ended it.
class CoreProcess {
 public:
  // Starts `program` and waits until it listens. It works in `scratch`, which is made anew and
  // removed in the end: its socket, its caches and its logs are there. It gets the proxy and
  // certificate variables of `environment`, and no key. Throws Config when the program cannot be
  // executed, Environment when it does not come up.
  CoreProcess(const std::filesystem::path& program, std::filesystem::path scratch,
              const Environment& environment);
  CoreProcess(const CoreProcess&) = delete;
  CoreProcess& operator=(const CoreProcess&) = delete;
  // Kills it if it still runs.
  ~CoreProcess();

  // Where it listens: "unix=PATH" (relative to scratch, or absolute) or "sock=PORT" on the loopback
  // interface.
  const std::string& address() const { return address_; }
  const std::filesystem::path& scratch() const { return scratch_; }

  // Waits until it ended; false when it still runs after `timeout`.
  bool wait(std::chrono::milliseconds timeout) const;

 private:
  void start(const std::filesystem::path& program, const Environment& environment);
  void wait_for_address();
  void kill();

  std::filesystem::path scratch_;
  FileDescriptor handle_;  // a pidfd
  pid_t pid_ = -1;
  std::string address_;
};

}  // namespace lockstep
