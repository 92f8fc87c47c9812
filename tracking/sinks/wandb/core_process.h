// One run of wandb-core, which ends with this object at the latest. It takes any number of uploads
// at once: the runs of many ranks need no more than one.
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

// Thread: the kernel kills wandb-core when the thread that made the object ends, whatever ended it.
class CoreProcess {
 public:
  // The one that this thread uses already for another upload, or a new one: see the constructor.
  static std::shared_ptr<CoreProcess> shared(const std::filesystem::path& program,
                                             std::filesystem::path scratch,
                                             const Environment& environment);

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

  // It failed an upload: shared() gives it to no other.
  void distrust() { is_trusted_ = false; }

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
  std::atomic<bool> is_trusted_ = true;
};

}  // namespace lockstep::tracking
