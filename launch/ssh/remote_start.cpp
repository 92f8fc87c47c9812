#include "launch/ssh/remote_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>

#include "core/printable.h"
#include "core/system/local_address.h"
#include "launch/rendezvous/node_link.h"
#include "launch/report/launch_report.h"
#include "launch/signal_watch.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kReadyTimeout = std::chrono::seconds(60);
// Beyond the grace period: the hosts kill their ranks, report, and ssh forwards the output.
constexpr auto kHostsExitTimeout = std::chrono::seconds(15);
// After a failure the launchers stop each other, and the coordinator reports.
constexpr auto kJobExitTimeout = std::chrono::seconds(20);
constexpr milliseconds kFlushTime{2000};
constexpr int kLostPeer = static_cast<int>(ErrorKind::Environment);

std::vector<std::string> command_for(const Host& host, const RemoteLaunch& launch) {
  if (is_this_host(host)) return {launch.own_program, "launch-node"};
  auto command = launch.ssh;  // the user's options come first and take precedence
  for (const char* option : {"-T", "-oBatchMode=yes", "-oConnectTimeout=15",
                             "-oServerAliveInterval=10", "-oServerAliveCountMax=3"})
    command.emplace_back(option);
  if (host.port) command.insert(command.end(), {"-p", std::to_string(*host.port)});
  if (host.user) command.insert(command.end(), {"-l", *host.user});
  command.insert(command.end(), {"--", host.name, shell_word(launch.program) + " launch-node"});
  return command;
}

class HostsLaunch {
 public:
  explicit HostsLaunch(const RemoteLaunch& launch)
      : launch_(launch), out_(launch.stdout_fd), err_(launch.stderr_fd) {}

  RemoteEnd run() {
    for (size_t i = 0; i < launch_.hosts.size(); ++i) start(static_cast<int>(i));
    while (!all_ended()) {
      wait();
      handle_signals();
      handle_exits();
      enforce_deadlines();
    }
    out_.flush(kFlushTime);
    err_.flush(kFlushTime);
    if (start_failure_) throw *start_failure_;
    return make_end();
  }

 private:
  void start(int node_rank) {
    const auto& host = launch_.hosts[static_cast<size_t>(node_rank)];
    nodes_.push_back(std::make_unique<NodeLink>(
        NodeStart{.node_rank = node_rank,
                  .host = host.name,
                  .command = command_for(host, launch_),
                  .program = is_this_host(host) ? launch_.own_program : launch_.program,
                  .order = to_line(launch_.orders[static_cast<size_t>(node_rank)])},
        out_, err_));
  }

  bool all_ended() const {
    return std::all_of(nodes_.begin(), nodes_.end(),
                       [](const auto& node) { return node->has_ended(); });
  }

  void wait() {
    std::vector<pollfd> requests = {signals_.poll_request()};
    std::vector<NodeLink*> owners = {nullptr};
    const bool take_output = !out_.is_full() && !err_.is_full();
    for (const auto& node : nodes_) {
      node->add_requests(requests, take_output);
      owners.resize(requests.size(), node.get());
    }
    const auto first_console = requests.size();
    for (auto* console : {&out_, &err_})
      if (console->has_pending()) requests.push_back(console->poll_request());
    if (::poll(requests.data(), requests.size(), poll_timeout_ms()) < 0) {
      if (errno == EINTR) return;
      throw errno_error("cannot wait for the hosts");
    }
    for (size_t i = 1; i < first_console; ++i) owners[i]->serve(requests[i]);
    auto next = first_console;
    for (auto* console : {&out_, &err_}) {
      if (next == requests.size() || requests[next].fd != console->poll_request().fd) continue;
      if (requests[next].revents) console->write_some();
      ++next;
    }
  }

  int poll_timeout_ms() const {
    auto next = next_alive_;
    for (const auto& deadline : {ready_by_, stop_at_, kill_at_})
      if (deadline) next = std::min(next, *deadline);
    const auto left = std::chrono::ceil<milliseconds>(next - Clock::now());
    return static_cast<int>(std::clamp(left, milliseconds(0), milliseconds(kAliveEvery)).count());
  }

  void handle_signals() {
    while (const auto signal = signals_.next()) {
      const auto now = Clock::now();
      const bool again = interrupted_by_ && now - signaled_at_ > kSameSignal;
      if (!interrupted_by_ || again) signaled_at_ = now;
      if (!stopping_) interrupted_by_ = signal;
      if (again) send_all(kKill);
      stop();
    }
  }

  void handle_exits() {
    for (const auto& node : nodes_) {
      if (node->has_ended()) continue;
      node->check_exit();
      if (!node->has_ended()) continue;
      const bool has_started = node->is_ready() || stopping_;
      if (!has_started) start_failure_ = node->failure();
      const bool failed = !has_started || node->exit().signal || node->exit().code != 0;
      if (!failed || interrupted_by_) continue;
      note_failure(*node);
      if (start_failure_)
        stop();
      else if (!stop_at_)
        stop_at_ = Clock::now() + kJobExitTimeout;
    }
  }

  // The first host that failed is the cause, unless it only lost a peer and another one has a
  // different reason.
  void note_failure(const NodeLink& node) {
    const auto& exit = node.exit();
    const bool was_stopped = exit.code == 128 + SIGTERM || exit.signal == SIGKILL;
    if (stopping_ && was_stopped) return;
    const bool better =
        !cause_ || (cause_->exit().code == kLostPeer && node.exit().code != kLostPeer);
    if (better) cause_ = &node;
  }

  void stop() {
    stop_at_.reset();
    if (stopping_) return;
    stopping_ = true;
    kill_at_ = Clock::now() + launch_.grace + kHostsExitTimeout;
    send_all(kStop);
    for (const auto& node : nodes_)
      if (!node->has_ended() && !node->is_ready()) node->kill();
  }

  void send_all(char byte) {
    for (const auto& node : nodes_)
      if (!node->has_ended()) node->send(byte);
  }

  void enforce_deadlines() {
    const auto now = Clock::now();
    if (now >= next_alive_) {
      send_all(kAlive);
      next_alive_ = now + kAliveEvery;
    }
    if (ready_by_ && now >= *ready_by_) fail_unready_hosts();
    if (stop_at_ && now >= *stop_at_) stop();
    if (!kill_at_ || now < *kill_at_) return;
    kill_at_ = now + kAliveEvery;
    for (const auto& node : nodes_)
      if (!node->has_ended()) node->kill();
  }

  void fail_unready_hosts() {
    ready_by_.reset();
    for (const auto& node : nodes_) {
      if (node->is_ready() || node->has_ended() || stopping_) continue;
      start_failure_ = environment_error(
          fmt::format("cannot start on {}: no response within {} s; check that 'ssh {} true' "
                      "returns immediately",
                      node->host(), kReadyTimeout.count(), node->host()));
      stop();
    }
  }

  RemoteEnd make_end() const {
    auto end = outcome();
    end.is_console_complete = out_.is_complete() && err_.is_complete();
    return end;
  }

  RemoteEnd outcome() const {
    if (interrupted_by_)
      return {.exit_code = 128 + *interrupted_by_,
              .summary = fmt::format("stopped by {}", signal_name(*interrupted_by_))};
    if (!cause_) {
      const bool all_succeeded = std::ranges::all_of(
          nodes_, [](const auto& node) { return !node->exit().signal && node->exit().code == 0; });
      return all_succeeded
                 ? RemoteEnd{}
                 : RemoteEnd{.exit_code = kLostPeer, .summary = "the launchers were stopped"};
    }
    const auto& exit = cause_->exit();
    if (exit.signal || exit.code == 255)
      return {.exit_code = kLostPeer,
              .summary = fmt::format("lost the connection to {} (node {} of {})", cause_->host(),
                                     cause_->node_rank(), launch_.hosts.size())};
    // The launchers agree on the cause; the coordinator, on the first host, has the full report.
    const auto& reporter = nodes_.front()->exit().code == 0 ? *cause_ : *nodes_.front();
    return {.exit_code = exit.code,
            .summary = fmt::format("the job failed with code {}; see the report of {}", exit.code,
                                   reporter.host())};
  }

  const RemoteLaunch& launch_;
  Console out_, err_;
  SignalWatch signals_;
  std::vector<std::unique_ptr<NodeLink>> nodes_;
  Clock::time_point next_alive_ = Clock::now() + kAliveEvery;
  std::optional<Clock::time_point> ready_by_ = Clock::now() + kReadyTimeout, stop_at_, kill_at_;
  std::optional<int> interrupted_by_;
  Clock::time_point signaled_at_;
  bool stopping_ = false;
  const NodeLink* cause_ = nullptr;
  std::optional<Error> start_failure_;
};

}  // namespace

bool is_this_host(const Host& host) {
  if (host.user || host.port) return false;
  return host.name == "localhost" || host.name == own_host_name();
}

RemoteEnd run_on_hosts(const RemoteLaunch& launch) { return HostsLaunch(launch).run(); }

}  // namespace lockstep::launch
