#include "tracking/copies/run_copy_sink.h"

#include <poll.h>

#include <algorithm>

#include "tracking/copies/run_files.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/log/event_log_segment.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {
namespace {

constexpr auto kOtherAgentsTimeout = std::chrono::seconds(10);
constexpr int kOtherAgentsPollMs = 50;

}  // namespace

void RunCopySink::run_started(const RunInfo& info, const Json&) {
  own_logs_ = {event_log_path(run_dir_, info.rank), node_log_path(run_dir_, info.node_rank)};
}

void RunCopySink::send_growth() {
  const auto now = std::chrono::steady_clock::now();
  if (!is_first_ || (sent_at_ && now - *sent_at_ < every_)) return;
  if (!sender_) sender_ = make_sender();
  sender_->send();
  sent_at_ = now;
}

Json RunCopySink::flush() {
  if (!is_over_) {
    send_growth();
  } else {
    sender_ =
        make_sender();  // asks for what the other side has: it may have lost a part of the run
    if (is_first_) {
      wait_for_other_agents();
      sender_->send();
      sender_->finish_logs();
      sender_->end();
    } else {
      sender_->send_part(own_logs_);
      sender_->finish_logs();
    }
  }
  return {{"run", run_dir_.filename().string()}};
}

// The agents of other nodes with the same file system close their logs at about the same time.
// Retries do not wait again: the time is counted from the end of the run.
void RunCopySink::wait_for_other_agents() const {
  using FileClock = std::filesystem::file_time_type::clock;
  const auto deadline = std::min(last_change(), FileClock::now()) + kOtherAgentsTimeout;
  const auto logs = node_logs(run_dir_);
  while (std::ranges::any_of(logs, has_writer) && FileClock::now() < deadline)
    ::poll(nullptr, 0, kOtherAgentsPollMs);
}

// Of the rank's log and of the files about the outcome.
std::filesystem::file_time_type RunCopySink::last_change() const {
  auto newest = std::filesystem::file_time_type::min();
  const auto add = [&](const std::filesystem::path& file) {
    std::error_code error;
    const auto time = std::filesystem::last_write_time(file, error);
    if (!error) newest = std::max(newest, time);
  };
  for (const auto& name : run_files(run_dir_)) add(run_dir_ / name);
  const auto& log = own_logs_.front();
  add(log);
  for (auto next = next_segment(log, 0); next; next = next_segment(log, next->beginning.number))
    add(segment_path(log, next->beginning.number));
  return newest;
}

}  // namespace lockstep::tracking
