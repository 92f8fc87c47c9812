#include "launch/hangs/hang_detector.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::launch {
namespace {

constexpr std::chrono::milliseconds kStackTime{1500};  // for stacks to arrive
constexpr double kTellAgain = 10;  // times as long as it had lasted when it was told last

std::vector<RankView> views_by_rank(const std::map<int, NodeStatus>& by_node) {
  std::vector<RankView> views;
  for (const auto& [node, status] : by_node)
    for (auto view : status.ranks) {
      view.silent_s = status.silent_s;
      views.push_back(std::move(view));
    }
  std::sort(views.begin(), views.end(),
            [](const auto& a, const auto& b) { return a.progress.rank < b.progress.rank; });
  return views;
}

uint64_t operations_of(const std::vector<RankView>& views) {
  uint64_t sum = 0;
  for (const auto& view : views) sum += view.progress.operations;
  return sum;
}

bool has_stacks_of(const std::vector<RankView>& views, const std::vector<int>& ranks) {
  return std::all_of(views.begin(), views.end(), [&](const RankView& view) {
    const bool is_asked = std::find(ranks.begin(), ranks.end(), view.progress.rank) != ranks.end();
    return !is_asked || !view.stacks.empty();
  });
}

}  // namespace

void HangDetector::begin_attempt() {
  hang_ = {};
  last_step_ = 0;
}

std::optional<StackRequest> HangDetector::judge(const std::map<int, NodeStatus>& by_node) {
  const auto views = views_by_rank(by_node);
  for (const auto& view : views) last_step_ = std::max(last_step_, view.progress.step);
  if (const auto finding = find_hang(views)) return follow(*finding, views);
  // One that only gave up waiting has not gone on.
  if (hang_.is_told && operations_of(views) <= hang_.told_operations) return std::nullopt;
  if (hang_.is_told) notes_.push_back("the ranks go on");
  hang_ = {};
  return std::nullopt;
}

void HangDetector::explain(LaunchReport& attempt) const {
  attempt.last_step = last_step_;
  for (auto& worker : attempt.workers)
    if (hang_.culprit && worker.rank == hang_.culprit->rank) worker.hang = hang_.culprit->text;
}

std::optional<StackRequest> HangDetector::follow(const HangFinding& finding,
                                                 const std::vector<RankView>& views) {
  if (finding.key != hang_.key) {
    hang_ = {.key = finding.key, .asked_at = Clock::now()};
    return StackRequest{.ranks = finding.culprits};
  }
  tell(finding, views);
  if (!finding.is_overdue()) return std::nullopt;
  for (const auto& view : views)
    if (!finding.culprits.empty() && view.progress.rank == finding.culprits.front())
      hang_.culprit = {view.progress.rank, describe_culprit(view, finding.timeout_s)};
  if (std::exchange(hang_.is_dumped, true)) return std::nullopt;
  notes_.push_back(fmt::format("error: {}; the ranks that wait give up after {:g} s", hang_.summary,
                               finding.timeout_s));
  return StackRequest{.dump = true};
}

// Once the stacks are there, and again when it has lasted much longer.
void HangDetector::tell(const HangFinding& finding, const std::vector<RankView>& views) {
  const auto text = describe_hang(finding, views);
  hang_.summary = text.substr(0, text.find('\n'));
  const bool has_all =
      has_stacks_of(views, finding.culprits) || Clock::now() - hang_.asked_at > kStackTime;
  const bool is_due = !hang_.is_told || finding.waited_s > hang_.told_again_after_s;
  if (!has_all || !is_due) return;
  notes_.push_back("warning: " + text.substr(0, text.size() - 1));
  hang_.is_told = true;
  hang_.told_operations = operations_of(views);
  hang_.told_again_after_s = kTellAgain * finding.waited_s;
}

}  // namespace lockstep::launch
