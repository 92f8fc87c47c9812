// One output stream of one worker: everything goes to its log file as it is, and line by line to
// the console. Thread: one.
#pragma once

#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/system/file_descriptor.h"
#include "launch/workers/console.h"
#include "launch/workers/line_splitter.h"

namespace lockstep::launch {

class WorkerOutput {
 public:
  // Opens the log file and a pipe. `console`: null when this stream is not shown. Throws
  // Environment.
  WorkerOutput(int rank, const std::filesystem::path& log_path, Console* console);

  // The end that the worker writes to. The launcher must close its copy once the worker runs.
  FileDescriptor take_write_end() { return std::move(write_end_); }

  bool is_open() const { return read_end_.is_open(); }
  pollfd poll_request() const { return {.fd = read_end_.get(), .events = POLLIN, .revents = 0}; }
  // Takes what is there, without blocking and at most one buffer full. Closes at the end of the
  // stream. Returns whether there may be more at once.
  bool read_some();
  // Takes what is still there, passes on a last line without end, and closes.
  void finish();

  // The last lines that were not blank and no mere remarks of LibTorch's, oldest first.
  std::vector<std::string> last_lines() const { return {last_lines_.begin(), last_lines_.end()}; }
  // Why the log file is incomplete; empty when it is not.
  const std::string& log_error() const { return log_error_; }

 private:
  void write_log(std::string_view bytes);
  void take_line(std::string_view line);
  void end();

  int rank_;
  std::filesystem::path log_path_;
  Console* console_;
  FileDescriptor read_end_, write_end_, log_;
  LineSplitter splitter_;
  std::deque<std::string> last_lines_;
  std::string log_error_;
};

}  // namespace lockstep::launch
