// One of the launcher's own output streams. Text is queued here and written when the stream takes
// it, so that a terminal that is stopped, or a reader that is slow, never keeps the launcher from
// stopping its workers. Thread: one.
#pragma once

#include <poll.h>

#include <chrono>
#include <string>
#include <string_view>

namespace lockstep::launch {

class Console {
 public:
  // Does not own `fd`. Colors are used on a terminal only, and never when NO_COLOR is set.
  explicit Console(int fd);

  // Queues one line with the prefix of the rank it came from.
  void write_line(int rank, std::string_view line);
  // Queues one line behind "[label]". Labels with the same number have the same color.
  void write_line(int number, std::string_view label, std::string_view line);

  // Queues a line of the launcher's own: "lockstep: TEXT".
  void write_note(std::string_view text);

  // More is queued than should be held: read no more from workers until it was written.
  bool is_full() const;
  bool has_pending() const { return !pending_.empty(); }
  pollfd poll_request() const { return {.fd = fd_, .events = POLLOUT, .revents = 0}; }
  // Writes one piece. Call when poll() says that it will not block. After an error (the reader is
  // gone) everything is dropped: the log files still get it.
  void write_some();
  // Writes what is queued, waiting for at most `limit` in all.
  void flush(std::chrono::milliseconds limit);

 private:
  int fd_;
  bool colored_;
  bool broken_ = false;
  std::string pending_;
};

}  // namespace lockstep::launch
