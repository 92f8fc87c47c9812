// A wandb-core child process, killed at the latest when this object is destroyed. One process
// handles any number of concurrent uploads, so the runs of many ranks share it.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "core/system/child_process.h"
#include "core/system/file_descriptor.h"
#include "lockstep/sink.h"

namespace lockstep::tracking {

// Thread: the kernel kills wandb-core when the thread that created the object terminates.
class CoreProcess {
 public:
  // Returns the process that this thread already uses, or starts a new one.
  static std::shared_ptr<CoreProcess> shared(const std::filesystem::path& program,
                                             std::filesystem::path scratch,
                                             const Environment& environment);

  // Starts `program` and waits until it listens. `scratch`, its working directory with its socket,
  // caches and logs, is recreated and finally removed. The program gets the proxy and certificate
  // variables of `environment`, but no key. Throws Config if the program cannot be executed,
  // Environment if it does not start listening.
  CoreProcess(const std::filesystem::path& program, std::filesystem::path scratch,
              const Environment& environment);
  CoreProcess(const CoreProcess&) = delete;
  CoreProcess& operator=(const CoreProcess&) = delete;
  // Kills the process if it is still running.
  ~CoreProcess();

  // The listening address: "unix=PATH" (absolute, or relative to scratch) or "sock=PORT" on the
  // loopback interface.
  const std::string& address() const { return address_; }
  const std::filesystem::path& scratch() const { return scratch_; }

  // Waits for the process to exit; returns false if it is still running after `timeout`.
  bool wait(std::chrono::milliseconds timeout) const;

  // Called after a failed upload: shared() no longer returns this process.
  void mark_failed() { has_failed_ = true; }

 private:
  void start(const std::filesystem::path& program, const Environment& environment);
  void wait_for_address();
  void kill();

  std::filesystem::path scratch_;
  std::optional<ChildProcess> process_;
  FileDescriptor handle_;  // a pidfd
  std::string address_;
  const std::filesystem::path program_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::atomic<bool> has_failed_ = false;
};

}  // namespace lockstep::tracking
