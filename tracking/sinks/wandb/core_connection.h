// Requests to wandb-core and its answers. Both ways: 'W', length:u32 little endian, that many bytes
// of a message (ServerRequest, ServerResponse).
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "core/system/file_descriptor.h"
#include "tracking/sinks/wandb/core_process.h"

namespace lockstep::tracking {

class CoreConnection {
 public:
  // Throws Environment when it cannot connect.
  explicit CoreConnection(const CoreProcess& process);

  // Throws Environment when wandb-core ended, or does not read for some seconds.
  void send(std::string_view request);

  // The next answer, or nullopt when none came until `timeout` is over. Throws Environment when
  // wandb-core ended.
  std::optional<std::string> receive(std::chrono::milliseconds timeout);

 private:
  std::optional<std::string> take_answer();

  FileDescriptor socket_;
  std::string received_;
};

}  // namespace lockstep::tracking
