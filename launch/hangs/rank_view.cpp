#include "launch/hangs/rank_view.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

namespace lockstep::launch {
namespace {

// The state follows the command, which may contain anything and ends at the last ')'.
char process_state(int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const auto end = text.rfind(')');
  return end != std::string::npos && end + 2 < text.size() ? text[end + 2] : '?';
}

// Buckets are reduced in the order of their names.
std::string pending_bucket(const ProgressSnapshot& progress) {
  if (!progress.in_operation || progress.buckets_started <= progress.buckets_finished) return {};
  std::istringstream lines(progress.bucket_names);
  std::string line;
  for (uint64_t i = 0; i <= progress.buckets_finished; ++i)
    if (!std::getline(lines, line)) return {};
  return line;
}

}  // namespace

std::optional<RankView> view_rank(const ProgressPage& page, int rank, const std::string& host,
                                  int64_t pid) {
  RankView view{.progress = page.snapshot(), .host = host};
  if (view.progress.pid == 0) return std::nullopt;
  view.process_state = process_state(pid);
  view.progress.rank = rank;
  view.progress.pid = pid;
  view.bucket = pending_bucket(view.progress);
  return view;
}

}  // namespace lockstep::launch
