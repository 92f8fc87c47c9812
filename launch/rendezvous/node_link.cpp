#include "launch/rendezvous/node_link.h"

#include <unistd.h>

#include <array>
#include <cerrno>

#include "core/printable.h"
#include "core/system/file_descriptor.h"
#include "launch/environment/node_order.h"
#include "launch/workers/start_failure.h"
#include "lockstep/rank_env.h"

namespace lockstep::launch {
namespace {

constexpr size_t kReadBytes = 64u << 10;
constexpr size_t kMaxHeldLines = 100;
constexpr size_t kMaxReasonLength = 300;
constexpr int kMaxLastReads = 64;  // another process may hold the pipe and keep writing

}  // namespace

NodeLink::NodeLink(const NodeStart& start, Console& out, Console& err)
    : node_rank_(start.node_rank),
      host_(start.host),
      program_(start.program),
      out_console_(out),
      err_console_(err),
      pending_(start.order + "\n") {
  auto in_pipe = make_pipe(), out_pipe = make_pipe(), err_pipe = make_pipe();
  in_ = std::move(in_pipe.write_end);
  out_ = std::move(out_pipe.read_end);
  err_ = std::move(err_pipe.read_end);
  for (const auto* fd : {&in_, &out_, &err_}) unblock(*fd);
  process_.emplace(ChildCommand{.program = start.command.front(),
                                .arguments = {start.command.begin() + 1, start.command.end()},
                                .environment = environment_with({}),
                                .stdout_fd = out_pipe.write_end.get(),
                                .stderr_fd = err_pipe.write_end.get(),
                                .stdin_fd = in_pipe.read_end.get(),
                                .inherited_fds = {}});
}

void NodeLink::send(char byte) {
  if (in_.is_open()) pending_ += byte;
}

void NodeLink::add_requests(std::vector<pollfd>& requests, bool take_output) const {
  if (in_.is_open() && !pending_.empty())
    requests.push_back({.fd = in_.get(), .events = POLLOUT, .revents = 0});
  if (!take_output) return;
  for (const auto* fd : {&out_, &err_})
    if (fd->is_open()) requests.push_back({.fd = fd->get(), .events = POLLIN, .revents = 0});
}

void NodeLink::serve(const pollfd& request) {
  if (!request.revents) return;
  if (request.fd == in_.get()) write_pending();
  if (request.fd == out_.get()) read_some(out_, out_lines_, false);
  if (request.fd == err_.get()) read_some(err_, err_lines_, true);
}

void NodeLink::write_pending() {
  const auto written = ::write(in_.get(), pending_.data(), pending_.size());
  if (written >= 0)
    pending_.erase(0, static_cast<size_t>(written));
  else if (errno != EINTR && errno != EAGAIN)
    in_.close();  // the process has closed its input: its exit status has the reason
}

bool NodeLink::read_some(FileDescriptor& fd, LineSplitter& lines, bool is_error) {
  std::array<char, kReadBytes> bytes;
  const auto got = ::read(fd.get(), bytes.data(), bytes.size());
  if (got < 0 && errno == EINTR) return true;
  if (got < 0 && errno == EAGAIN) return false;
  const auto on_line = [&](std::string_view line) { take_line(line, is_error); };
  if (got > 0) {
    lines.feed({bytes.data(), static_cast<size_t>(got)}, on_line);
    return true;
  }
  lines.finish(on_line);
  fd.close();
  return false;
}

void NodeLink::take_line(std::string_view line, bool is_error) {
  if (!ready_ && !is_error && line == kNodeReady) {
    ready_ = true;
    for (const auto& held : held_) err_console_.write_line(node_rank_, host_, held);
    held_.clear();
  } else if (!ready_ && is_error) {
    const bool blank = line.find_first_not_of(" \t\r") == std::string_view::npos;
    if (!blank && held_.size() < kMaxHeldLines) held_.emplace_back(line);
  } else {
    (is_error ? err_console_ : out_console_).write_line(node_rank_, host_, line);
  }
}

void NodeLink::check_exit() {
  if (exit_) return;
  const auto exit = process_->poll_exit();
  if (!exit) return;
  process_->reap();
  drain();
  exit_ = exit;
}

void NodeLink::drain() {
  for (int i = 0; i < kMaxLastReads && out_.is_open() && read_some(out_, out_lines_, false); ++i) {
  }
  for (int i = 0; i < kMaxLastReads && err_.is_open() && read_some(err_, err_lines_, true); ++i) {
  }
  in_.close();
  out_.close();
  err_.close();
}

Error NodeLink::failure() const {
  const auto last_line = held_.empty() ? "" : printable(held_.back(), kMaxReasonLength);
  return start_failure(host_, program_, *exit_, last_line);
}

}  // namespace lockstep::launch
