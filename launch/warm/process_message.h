// What the processes of a warm start (launch/warm/warm_template.h) tell each other over a Unix socket:
// texts, and open file descriptors. Only files of launch/ include this.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/system/file_descriptor.h"

namespace lockstep::launch {

struct ProcessMessage {
  enum class Kind { Answer, ForkLauncher, ForkWorker };

  Kind kind = Kind::Answer;
  std::vector<std::string> words;        // a command line, program first
  std::vector<std::string> environment;  // as "NAME=value"
  std::vector<int> numbers;
  std::vector<FileDescriptor> fds;  // of the receiver, closed on exec
};

// Two connected sockets, closed on exec. Throws Environment.
std::pair<FileDescriptor, FileDescriptor> connected_sockets();

// Sends duplicates of `fds`; message.fds is not used. Returns false if the other end is closed, or the
// message cannot be sent.
bool send_message(int socket, const ProcessMessage& message, const std::vector<int>& fds = {});

// Waits for a message, for at most `timeout` (nullopt: as long as the other end is open). Returns
// nullopt if there is none.
std::optional<ProcessMessage> receive_message(int socket,
                                              std::optional<std::chrono::milliseconds> timeout);

}  // namespace lockstep::launch
