// An output stream of the launcher. Text is queued and written when the stream is writable, so that
// a stopped terminal or a slow reader never blocks the launcher. Thread: one.
#pragma once

#include <poll.h>

#include <chrono>
#include <string>
#include <string_view>

namespace lockstep::launch {

class Console {
 public:
  // Does not own `fd`. Colors are used on terminals only, unless NO_COLOR is set.
  explicit Console(int fd);

  // Queues a line with the prefix of its rank.
  void write_line(int rank, std::string_view line);
  // Queues a line with the prefix "[label]". Labels with the same number have the same color.
  void write_line(int number, std::string_view label, std::string_view line);

  // Queues a message of the launcher: "lockstep: TEXT".
  void write_note(std::string_view text);

  // The queue is at its limit: read no more output of workers until it has been written.
  bool is_full() const;
  // From now on, lines of workers are dropped while the queue is at its limit, or are not.
  void drop_when_full() { drops_ = true; }
  void keep_all() { drops_ = false; }
  // All text so far has been written.
  bool is_complete() const { return !lacks_text_ && pending_.empty(); }
  bool has_pending() const { return !pending_.empty(); }
  pollfd poll_request() const { return {.fd = fd_, .events = POLLOUT, .revents = 0}; }
  // Writes one chunk. Call when poll() reports the stream writable. After an error (the reader has
  // closed it) all text is discarded; log files are not affected.
  void write_some();
  // Writes the queue, blocking for at most `limit` in total. See is_complete().
  void flush(std::chrono::milliseconds limit);

 private:
  int fd_;
  bool colored_;
  bool broken_ = false, drops_ = false, lacks_text_ = false;
  std::string pending_;
};

}  // namespace lockstep::launch
