// Connection to wandb-core. Frames in both directions: 'W', length:u32 little endian, and a message
// of that many bytes (ServerRequest, ServerResponse).
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

  // Throws Environment if wandb-core exited, or does not read for several seconds.
  void send(std::string_view request);

  // Returns the next response, or nullopt after `timeout`. Throws Environment if wandb-core exited.
  std::optional<std::string> receive(std::chrono::milliseconds timeout);

 private:
  std::optional<std::string> next_response();

  FileDescriptor socket_;
  std::string received_;
};

}  // namespace lockstep::tracking
