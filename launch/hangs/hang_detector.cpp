#include "launch/hangs/hang_detector.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::launch {
namespace {

constexpr std::chrono::milliseconds kStackTime{1500};  // for stacks to arrive
constexpr double kReportAgainFactor = 10;              // of the duration at the last report

std::vector<RankView> views_by_rank(const std::map<int, NodeStatus>& by_node) {
  std::vector<RankView> views;
  for (const auto& [node, status] : by_node)
    for (auto view : status.ranks) {
      view.node_rank = node;
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
    const bool is_listed = std::find(ranks.begin(), ranks.end(), view.progress.rank) != ranks.end();
    return !is_listed || !view.stacks.empty();
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
  // A rank that only timed out has not made progress.
  if (hang_.is_reported && operations_of(views) <= hang_.reported_operations) return std::nullopt;
  if (hang_.is_reported) notes_.push_back("the ranks continue");
  hang_ = {};
  return std::nullopt;
}

void HangDetector::explain(LaunchReport& attempt) const {
  attempt.last_step = last_step_;
  const auto& culprit = hang_.culprit;
  for (auto& worker : attempt.workers)
    if (culprit && std::pair(worker.node_rank, worker.pid) == culprit->process)
      worker.hang = culprit->text;
}

std::optional<StackRequest> HangDetector::follow(const HangFinding& finding,
                                                 const std::vector<RankView>& views) {
  if (finding.key != hang_.key) {
    hang_ = {.key = finding.key, .requested_at = Clock::now()};
    return StackRequest{.ranks = finding.culprits};
  }
  report(finding, views);
  if (!finding.is_overdue()) return std::nullopt;
  for (const auto& view : views)
    if (!finding.culprits.empty() && view.progress.rank == finding.culprits.front())
      hang_.culprit =
          Culprit{{view.node_rank, view.progress.pid}, describe_culprit(view, finding.timeout_s)};
  if (std::exchange(hang_.is_dumped, true)) return std::nullopt;
  notes_.push_back(fmt::format("error: {}; the waiting ranks give up after {:g} s", hang_.summary,
                               finding.timeout_s));
  return StackRequest{.dump = true};
}

// Once the stacks have arrived, and again when the hang has lasted much longer.
void HangDetector::report(const HangFinding& finding, const std::vector<RankView>& views) {
  const auto text = describe_hang(finding, views);
  hang_.summary = text.substr(0, text.find('\n'));
  const bool has_all =
      has_stacks_of(views, finding.culprits) || Clock::now() - hang_.requested_at > kStackTime;
  const bool is_due = !hang_.is_reported || finding.waited_s > hang_.report_again_after_s;
  if (!has_all || !is_due) return;
  notes_.push_back("warning: " + text.substr(0, text.size() - 1));
  hang_.is_reported = true;
  hang_.reported_operations = operations_of(views);
  hang_.report_again_after_s = kReportAgainFactor * finding.waited_s;
}

}  // namespace lockstep::launch
