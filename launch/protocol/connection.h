// One connection between two launchers: messages (launch/protocol/messages.h) out and in as the
// contents of frames, without ever waiting. Thread: one.
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
  // Of a stranger, and of a node that holds the token.
  static constexpr size_t kMaxUnauthenticatedBytes = 4u << 10;
  static constexpr size_t kMaxMessageBytes = 4u << 20;

  // `fd`: connected, or still connecting; does not block.
  explicit Connection(FileDescriptor fd);

  bool is_open() const { return fd_.is_open(); }
  int fd() const { return fd_.get(); }
  pollfd poll_request() const;
  // Writes and reads what can be without waiting. When the other side is gone, or what came is no
  // frame, the connection is closed and problem() says why.
  void transfer();
  // The next message, in order. Also after the connection was closed.
  std::optional<std::string> next();
  // Queues and tries to write at once.
  void send(std::string_view message);
  bool has_pending() const { return !pending_.empty(); }
  void close(const std::string& problem);

  // From here on larger messages are taken, each sealed.
  void trust(Side own, const std::string& token, const Challenges& challenges);

  const std::string& problem() const { return problem_; }
  // What came was no frame: the other side is no launcher.
  bool misspoke() const { return misspoke_; }
  // When a message or anything else was last heard.
  Clock::time_point last_heard() const { return last_heard_; }
  void forgive_silence() { last_heard_ = Clock::now(); }

 private:
  bool write_some();
  void read_some();

  FileDescriptor fd_;
  FrameReader reader_{kMaxUnauthenticatedBytes};
  std::optional<FrameSeal> outgoing_, incoming_;
  std::string pending_;
  std::string problem_;
  bool misspoke_ = false;
  Clock::time_point last_heard_ = Clock::now();
};

}  // namespace lockstep::launch
