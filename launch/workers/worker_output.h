// An output stream of a worker: copied unchanged to its log file, and by line to the console.
// Thread: one.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/system/file_descriptor.h"
#include "launch/workers/console.h"
#include "launch/workers/line_splitter.h"

namespace lockstep::launch {

class WorkerOutput {
 public:
  using IsHidden = std::function<bool(std::string_view line)>;

  // Opens the log file and a pipe. `console`: null if this stream is not shown. `is_hidden`: called
  // with each line before the console shows it. Throws Environment.
  WorkerOutput(int rank, const std::filesystem::path& log_path, Console* console,
               IsHidden is_hidden = {});

  // The write end for the worker. The launcher must close its copy once the worker has started.
  FileDescriptor take_write_end() { return std::move(write_end_); }

  bool is_open() const { return read_end_.is_open(); }
  pollfd poll_request() const { return {.fd = read_end_.get(), .events = POLLIN, .revents = 0}; }
  // Reads available output without blocking, at most one buffer. Closes at the end of the stream.
  // Returns whether more may be available.
  bool read_some();
  // Reads the remaining output, passes on a last line without a newline, and closes.
  void finish();

  // The last lines that are neither blank nor log messages of LibTorch, oldest first.
  std::vector<std::string> last_lines() const { return {last_lines_.begin(), last_lines_.end()}; }
  // Why the log file is incomplete; empty if it is complete.
  const std::string& log_error() const { return log_error_; }

 private:
  void write_log(std::string_view bytes);
  void take_line(std::string_view line);
  void end();

  int rank_;
  std::filesystem::path log_path_;
  Console* console_;
  IsHidden is_hidden_;
  FileDescriptor read_end_, write_end_, log_;
  LineSplitter splitter_;
  std::deque<std::string> last_lines_;
  std::string log_error_;
};

}  // namespace lockstep::launch
