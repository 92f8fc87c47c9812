// A non-blocking connection between two launchers that sends and receives messages
// (launch/protocol/messages.h) as frames. Thread: one.
#pragma once

#include <poll.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "core/system/file_descriptor.h"
#include "launch/protocol/authentication.h"
#include "launch/protocol/frame.h"

namespace lockstep::launch {

class Connection {
 public:
  using Clock = std::chrono::steady_clock;
  // Longest message before and after authentication.
  static constexpr size_t kMaxUnauthenticatedBytes = 4u << 10;
  static constexpr size_t kMaxMessageBytes = 4u << 20;

  // `fd`: connected, or still connecting; does not block.
  explicit Connection(FileDescriptor fd);

  bool is_open() const { return fd_.is_open(); }
  int fd() const { return fd_.get(); }
  pollfd poll_request() const;
  // Writes and reads without blocking. If the other end has disconnected or sent a malformed frame, the
  // connection is closed and problem() has the reason.
  void transfer();
  // The next received message, also after the connection was closed. nullopt: none.
  std::optional<std::string> next();
  // Queues a message and writes as much as possible without blocking.
  void send(std::string_view message);
  bool has_pending() const { return !pending_.empty(); }
  void close(const std::string& problem);

  // After authentication: raises the message limit and authenticates each frame.
  void trust(Side own, const std::string& token, const Challenges& challenges);

  const std::string& problem() const { return problem_; }
  // The other end sent a malformed frame: it is not a launcher.
  bool has_protocol_error() const { return has_protocol_error_; }
  // When bytes were last received.
  Clock::time_point last_received() const { return last_received_; }
  void reset_silence() { last_received_ = Clock::now(); }

 private:
  bool write_some();
  void read_some();

  FileDescriptor fd_;
  FrameReader reader_{kMaxUnauthenticatedBytes};
  std::optional<FrameSeal> outgoing_, incoming_;
  std::string pending_;
  std::string problem_;
  bool has_protocol_error_ = false;
  Clock::time_point last_received_ = Clock::now();
};

}  // namespace lockstep::launch
