#include "launch/report/launch_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <sstream>
#include <tuple>

#include "core/fatal_signal.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

constexpr size_t kMaxLines = 40;

const char* meaning_of_signal(int signal) {
  switch (signal) {
    case SIGKILL: return " (possibly the OOM killer, or kill -9)";
    case SIGSEGV:
    case SIGBUS: return " (invalid memory access)";
    case SIGABRT: return " (aborted)";
    case SIGILL: return " (built for another processor?)";
    default: return "";
  }
}

const char* meaning_of_code(int code) {
  switch (code) {
    case static_cast<int>(ErrorKind::Config): return " (the input is wrong)";
    case static_cast<int>(ErrorKind::Environment):
      return " (the environment failed; a restart may help)";
    case static_cast<int>(ErrorKind::Bug): return " (a bug)";
    default: return "";
  }
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; lines.size() < kMaxLines && std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i == 16) return text + fmt::format(" and {} more", ranks.size() - i);
    text += fmt::format("{} {}", i ? "," : "", ranks[i]);
  }
  return text;
}

// How the other ranks ended: one line for those that also failed, one for those that were stopped.
std::string others_text(const LaunchReport& report, const WorkerEnd* cause) {
  std::vector<int> failed, stopped;
  for (const auto& worker : report.workers)
    if (worker.failed() && (!cause || worker.rank != cause->rank))
      (worker.stopped ? stopped : failed).push_back(worker.rank);
  std::string text;
  if (!failed.empty()) text += fmt::format("  failed later: {}\n", ranks_text(failed));
  if (!stopped.empty()) text += fmt::format("  stopped as a result: {}\n", ranks_text(stopped));
  return text;
}

// The launcher's SIGTERM or SIGKILL may arrive between a worker's error report and its exit.
std::optional<int> pending_exit_code(const WorkerEnd& worker) {
  if (!worker.error || (worker.exit.signal != SIGTERM && worker.exit.signal != SIGKILL))
    return std::nullopt;
  return exit_code_of(*worker.error);
}

bool is_same_failure(const WorkerEnd& worker, const WorkerEnd& other) {
  for (const auto* end : {&worker, &other})
    if (!end->failed() || end->stopped || !end->hang.empty() || end->fatal_signal() ||
        !end->error || end->error->message.empty())
      return false;
  return worker.error->message == other.error->message && worker.exit_code() == other.exit_code();
}

}  // namespace

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

std::string WorkerEnd::what() const {
  if (!hang.empty()) return hang.substr(0, hang.find('\n'));
  if (const auto code = pending_exit_code(*this))
    return fmt::format("exited with code {}{}", *code, meaning_of_code(*code));
  if (exit.signal)
    return fmt::format("killed by {}{}", signal_name(*exit.signal),
                       meaning_of_signal(*exit.signal));
  return fmt::format("exited with code {}{}", exit.code, meaning_of_code(exit.code));
}

std::vector<std::string> WorkerEnd::detail() const {
  if (!hang.empty()) {
    auto lines = split_lines(hang);
    lines.erase(lines.begin());
    return lines;
  }
  return error && !error->message.empty() ? split_lines(error->message) : last_lines;
}

int WorkerEnd::exit_code() const {
  if (!hang.empty()) return static_cast<int>(ErrorKind::Environment);
  if (const auto code = pending_exit_code(*this)) return *code;
  if (!exit.signal) return exit.code;
  return static_cast<int>(kind_of_signal(*exit.signal));
}

std::optional<int> WorkerEnd::fatal_signal() const {
  if (!hang.empty() || pending_exit_code(*this)) return std::nullopt;
  return exit.signal;
}

std::optional<int> preempting_signal(const ProcessExit& exit) {
  if (exit.signal) return std::nullopt;
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1})
    if (exit.code == 128 + signal) return signal;
  return std::nullopt;
}

const WorkerEnd* find_cause(const std::vector<WorkerEnd>& workers) {
  const auto order = [](const WorkerEnd& worker) {
    const bool only_waited = worker.lost_peer() || !worker.hang.empty();
    return std::make_tuple(only_waited, worker.hang.empty(), worker.failure_time_us(), worker.rank);
  };
  const auto counts = [](const WorkerEnd& worker) {
    return !worker.hang.empty() || (worker.failed() && !worker.stopped && !worker.preempted_by());
  };
  const WorkerEnd* cause = nullptr;
  for (const auto& worker : workers)
    if (counts(worker) && (!cause || order(worker) < order(*cause))) cause = &worker;
  return cause;
}

std::string NodeFailure::what() const {
  return host.empty() ? reason : fmt::format("node {} on {}: {}", node_rank, host, reason);
}

const WorkerEnd* LaunchReport::cause() const {
  if (interrupted_by) return nullptr;
  const auto* worker = find_cause(workers);
  const bool only_waited = worker && (worker->lost_peer() || !worker->hang.empty());
  return only_waited && !node_failures.empty() ? nullptr : worker;
}

bool LaunchReport::all_failed_alike() const {
  const auto* first = cause();
  if (!first || world_size < 2) return false;
  if (first->exit_code() != static_cast<int>(ErrorKind::Config)) return false;
  return failed_alike || (workers.size() == static_cast<size_t>(world_size) &&
                          std::ranges::all_of(workers, [&](const WorkerEnd& worker) {
                            return is_same_failure(worker, *first);
                          }));
}

const NodeFailure* LaunchReport::node_cause() const {
  return interrupted_by || cause() || node_failures.empty() ? nullptr : &node_failures.front();
}

std::optional<int> LaunchReport::preempted_by() const {
  if (interrupted_by || !node_failures.empty() || cause()) return std::nullopt;
  for (const auto& worker : workers)
    if (const auto signal = worker.preempted_by()) return signal;
  return std::nullopt;
}

int LaunchReport::exit_code() const {
  if (interrupted_by) return 128 + *interrupted_by;
  if (const auto signal = preempted_by()) return 128 + *signal;
  if (const auto* node = node_cause()) return node->exit_code;
  const auto* first = cause();
  return first ? first->exit_code() : 0;
}

std::string LaunchReport::summary() const {
  if (interrupted_by) return fmt::format("stopped by {}", signal_name(*interrupted_by));
  if (const auto signal = preempted_by())
    return fmt::format("the ranks exited after {}", signal_name(*signal));
  if (const auto* node = node_cause()) return node->what();
  const auto* first = cause();
  if (!first) return "";
  if (all_failed_alike()) return fmt::format("all {} ranks failed: {}", world_size, first->what());
  return fmt::format("rank {} (of {}){} {}{}", first->rank, world_size,
                     first->host.empty() ? "" : " on " + first->host,
                     first->hang.empty() ? "failed first: " : "", first->what());
}

std::string LaunchReport::text() const {
  std::string text = succeeded() ? "" : summary() + "\n";
  const auto* first = cause();
  const bool is_shown = all_failed_alike() && first->error &&
                        std::ranges::count(shown_errors, first->error->message) > 0;
  if (first && !is_shown)
    for (const auto& line : first->detail()) text += fmt::format("  {}\n", line);
  for (const auto& node : node_failures)
    if (&node != node_cause()) text += fmt::format("  {}\n", node.what());
  if ((first || node_cause()) && !all_failed_alike()) text += others_text(*this, first);
  if (restarts > 0 && !succeeded())
    text += fmt::format("  after {} restart{}\n", restarts, restarts == 1 ? "" : "s");
  for (const auto& note : notes) text += fmt::format("  note: {}\n", note);
  return text;
}

}  // namespace lockstep::launch
