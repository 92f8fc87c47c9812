// The sending side of copies of event logs (tracking/copies/log_copy.h). Sends complete records
// only.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "tracking/copies/log_copy.h"

namespace lockstep {
class HttpClient;
struct HttpResponse;
}  // namespace lockstep

namespace lockstep::tracking {

// Where copies of logs are kept. Calls throw Environment if they should be retried, else Config.
class LogCopyStore {
 public:
  virtual ~LogCopyStore() = default;
  // `segment`: the name of its file.
  virtual LogCopy copy(const std::string& segment) = 0;
  // Appends to the copy, unless its size is not `offset`. Returns what it is then.
  virtual LogCopy append(const std::string& segment, uint64_t offset, const std::string& bytes) = 0;
  // Nothing more is appended.
  virtual void finish() {}
};

// A receiver that is reached by HTTP.
struct LogReceiverAddress {
  HttpClient& client;  // must outlive the sender
  std::string path;    // prefix of "/logs/NAME"
  std::string name;    // in messages: "the tracking agent of rank 0's node"
  size_t max_request_bytes = kMaxForwardedBytes;
  // Throws the error of a response that has no state of a copy.
  std::function<void(const HttpResponse&)> reject;
};

// Thread: one at a time. Calls throw what the client and `reject` throw, and Environment if a log
// cannot be read, if its copy is not a copy of it, or if bytes that had arrived are gone (the next
// call sends them again).
class LogSender {
 public:
  explicit LogSender(const LogReceiverAddress& to);
  // `name`: of the receiver, in messages. `piece_bytes`: of all requests.
  LogSender(std::unique_ptr<LogCopyStore> to, std::string name, size_t piece_bytes);

  // Sends what the copies of all segments of `log` do not have at the time of the call.
  void send(const std::filesystem::path& log);
  // The logs are over and sent.
  void finish() { to_->finish(); }
  // The bytes of complete records that the copies of its segments do not have. Sends nothing.
  uint64_t missing_bytes(const std::filesystem::path& log);
  // Of the segments of the last calls, without a request.
  uint64_t backlog() const;

 private:
  struct Progress {
    uint64_t local_bytes = 0;   // bytes of complete records in the segment
    uint64_t copied_bytes = 0;  // bytes of the copy
    bool is_copy_known = false;
    bool is_final = false;  // a later segment exists, and this one is copied completely
  };
  void verify(const std::filesystem::path& segment, int file, const LogCopy& copy,
              Progress& progress);
  uint64_t measure(const std::filesystem::path& segment, int file, Progress& progress);
  void send_piece(const std::filesystem::path& segment, int file, Progress& progress);
  void adapt_piece(std::chrono::steady_clock::duration taken);
  uint64_t handle_segments(const std::filesystem::path& log, bool sends);
  uint64_t handle_segment(const std::filesystem::path& segment, bool sends);

  const std::unique_ptr<LogCopyStore> to_;
  const std::string name_;
  const size_t min_piece_bytes_, max_piece_bytes_;
  size_t piece_bytes_;  // of the next request; adapted to the speed of the connection
  std::map<std::filesystem::path, Progress> progress_;  // by segment
};

// Returns the number of bytes of complete records in `segment` from offset `from`, which must be
// the start of a record. Throws Environment if the segment cannot be read.
uint64_t complete_record_bytes(int segment, uint64_t from);

}  // namespace lockstep::tracking
