// One host of a launch with --hostfile: the ssh process that runs `lockstep launch-node` there (or
// that program itself, if the host is this one), with its input and output. Thread: one.
#pragma once

#include <poll.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "core/system/child_process.h"
#include "core/system/file_descriptor.h"
#include "launch/workers/console.h"
#include "launch/workers/line_splitter.h"
#include "lockstep/error.h"

namespace lockstep::launch {

// The process to start for a host.
struct NodeStart {
  int node_rank = 0;
  std::string host;                  // as the user wrote it
  std::vector<std::string> command;  // ssh and its arguments
  std::string program;               // path of `lockstep` on the host, for messages
  std::string order;                 // one line, see launch/environment/node_order.h
};

class NodeLink {
 public:
  // Starts the process. Its output is forwarded by line to the consoles, which must outlive this.
  // Throws Config (no such program as ssh) or Environment.
  NodeLink(const NodeStart& start, Console& out, Console& err);

  const std::string& host() const { return host_; }
  int node_rank() const { return node_rank_; }
  // The host has parsed its order.
  bool is_ready() const { return ready_; }
  bool has_ended() const { return exit_.has_value(); }
  // Requires has_ended().
  const ProcessExit& exit() const { return *exit_; }

  // Queues one of the bytes of launch/environment/node_order.h.
  void send(char byte);
  // Kills the local process; the host detects that the connection is closed.
  void kill() const { process_->signal_group(SIGKILL); }
  // Checks whether the process has exited; if so, reads its remaining output and sets exit().
  void check_exit();

  // What to poll for, and the handler. `take_output` false: the consoles are full.
  void add_requests(std::vector<pollfd>& requests, bool take_output) const;
  void serve(const pollfd& request);

  // Why it never became ready. Requires has_ended().
  Error failure() const;

 private:
  bool read_some(FileDescriptor& fd, LineSplitter& lines, bool is_error);
  void take_line(std::string_view line, bool is_error);
  void write_pending();
  void drain();

  int node_rank_;
  std::string host_, program_;
  Console &out_console_, &err_console_;
  FileDescriptor in_, out_, err_;
  LineSplitter out_lines_, err_lines_;
  std::string pending_;            // to be sent
  std::vector<std::string> held_;  // stderr of ssh before the host was ready
  bool ready_ = false;
  std::optional<ChildProcess> process_;
  std::optional<ProcessExit> exit_;
};

}  // namespace lockstep::launch
