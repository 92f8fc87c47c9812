#include "launch/hangs/hang_finding.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

namespace lockstep::launch {
namespace {

constexpr double kStartWarning = 30;  // until a rank has reported its own limit
constexpr double kLongStep = 3;       // a wait of this many of the longest steps is usual
constexpr size_t kMaxDescribed = 8;
constexpr double kSilence = 2;  // nodes report their status twice a second

using Views = std::vector<const RankView*>;

// Progress of a rank: operations entered, whether it has left the last one, and how many buckets
// it has started in it.
auto progress_of(const RankView& view) {
  const auto& progress = view.progress;
  return std::tuple(progress.operations, !progress.in_operation,
                    progress.in_operation ? progress.buckets_started : 0);
}

double usual_wait(const RankView& view) {
  const auto& progress = view.progress;
  const double limit = progress.warn_after_s > 0 ? progress.warn_after_s
                                                 : kStartWarning / kTimeoutFactorOutsideSteps;
  const bool is_first_step = progress.longest_step_s == 0;  // nothing says how long a step may take
  const double scale =
      is_stepping(progress.phase) && !is_first_step ? 1 : kTimeoutFactorOutsideSteps;
  return std::max(limit * scale, kLongStep * progress.longest_step_s);
}

Views lagging_ranks(const std::vector<RankView>& views) {
  const auto less = [](const RankView& a, const RankView& b) {
    return progress_of(a) < progress_of(b);
  };
  const auto [least, most] = std::minmax_element(views.begin(), views.end(), less);
  Views last;
  if (progress_of(*least) == progress_of(*most)) return last;
  for (const auto& view : views)
    if (progress_of(view) == progress_of(*least)) last.push_back(&view);
  return last;
}

Views stopped_processes(const std::vector<RankView>& views) {
  Views stopped;
  for (const auto& view : views)
    if (view.process_state == 'T') stopped.push_back(&view);
  return stopped;
}

Views views_of_silent_nodes(const std::vector<RankView>& views) {
  Views silent;
  for (const auto& view : views)
    if (view.silent_s > kSilence) silent.push_back(&view);
  return silent;
}

// The state of ranks of silent nodes is unknown: reports only which nodes the others wait for.
std::optional<HangFinding> find_silence(const RankView& waiter, const Views& silent) {
  if (waiter.progress.idle_s < usual_wait(waiter)) return std::nullopt;
  HangFinding finding{.waited_s = waiter.progress.idle_s, .timeout_s = waiter.progress.timeout_s};
  for (const auto* view : silent) {
    auto& hosts = finding.silent_hosts;
    if (std::find(hosts.begin(), hosts.end(), view->host) == hosts.end())
      hosts.push_back(view->host);
    finding.silent_s = std::max(finding.silent_s, view->silent_s);
  }
  finding.key = fmt::format("silent {}", fmt::join(finding.silent_hosts, ","));
  return finding;
}

bool all_in_same_operation(const std::vector<RankView>& views) {
  return std::all_of(views.begin(), views.end(), [&](const RankView& view) {
    return view.progress.operation == views.front().progress.operation &&
           view.progress.detail == views.front().progress.detail;
  });
}

std::string describe_process(const RankView& view) {
  return fmt::format("rank {} ({}, process {})", view.progress.rank, view.host, view.progress.pid);
}

// Empty if the state is not relevant.
std::string describe_state(const RankView& view) {
  switch (view.process_state) {
    case 'T': return ": it is stopped (SIGSTOP or a debugger)";
    case 'D': return ": it is blocked in the kernel (a disk or a file server?)";
    case 'Z': return ": it has exited";
    default: return "";
  }
}

std::string describe_operation(const RankView& view) {
  const auto& progress = view.progress;
  auto text = fmt::format("{}{}{}", progress.operation, progress.detail.empty() ? "" : " of ",
                          progress.detail);
  if (!view.bucket.empty())
    text += fmt::format(", bucket {} ({})", progress.buckets_finished, view.bucket);
  return text;
}

std::string describe_place(const RankView& view) {
  const auto& progress = view.progress;
  const auto step = progress.total_steps
                        ? fmt::format("step {} of {}, ", progress.current_step(), progress.total_steps)
                        : "";
  if (view.is_waiting())
    return fmt::format("{}{}: in {} for {:.1f} s", step, phase_name(progress.phase),
                       describe_operation(view), progress.idle_s);
  return fmt::format("{}{} for {:.1f} s", step, phase_name(progress.phase), progress.phase_age_s);
}

const RankView* find_rank(const std::vector<RankView>& views, int rank) {
  for (const auto& view : views)
    if (view.progress.rank == rank) return &view;
  return nullptr;
}

}  // namespace

std::optional<HangFinding> find_hang(const std::vector<RankView>& views) {
  const RankView* waiter = nullptr;
  for (const auto& view : views)
    if (view.silent_s <= kSilence && view.is_waiting() &&
        (!waiter || view.progress.idle_s > waiter->progress.idle_s))
      waiter = &view;
  if (!waiter || views.size() < 2) return std::nullopt;
  if (const auto silent = views_of_silent_nodes(views); !silent.empty())
    return find_silence(*waiter, silent);
  auto culprits = lagging_ranks(views);
  if (culprits.empty()) culprits = stopped_processes(views);
  double usual = usual_wait(*waiter);
  for (const auto* culprit : culprits)  // a stopped one will not continue by itself
    if (culprit->process_state != 'T') usual = std::max(usual, usual_wait(*culprit));
  // All wait for each other: the shortest of the usual waits applies.
  if (culprits.empty())
    for (const auto& view : views) usual = std::min(usual, usual_wait(view));
  if (waiter->progress.idle_s < usual) return std::nullopt;
  HangFinding finding{.waited_s = waiter->progress.idle_s, .timeout_s = waiter->progress.timeout_s};
  for (const auto* culprit : culprits) finding.culprits.push_back(culprit->progress.rank);
  std::sort(finding.culprits.begin(), finding.culprits.end());
  // Not those of `waiter`: which rank waits longest depends on the order of the reports.
  uint64_t most_operations = 0;
  for (const auto& view : views)
    most_operations = std::max(most_operations, view.progress.operations);
  finding.key = fmt::format("{} {}", most_operations, fmt::join(finding.culprits, ","));
  return finding;
}

std::string describe_rank(const RankView& view) {
  return fmt::format("{}{}\n  {}\n{}", describe_process(view), describe_state(view),
                     describe_place(view), view.stacks);
}

std::string describe_culprit(const RankView& view, double timeout_s) {
  return fmt::format("kept the others waiting until they gave up after {:g} s{}\nit was at {}",
                     timeout_s, describe_state(view), describe_place(view));
}

std::string describe_hang(const HangFinding& finding, const std::vector<RankView>& views) {
  std::string text;
  if (!finding.silent_hosts.empty())
    text += fmt::format(
        "no message from {} for {:.1f} s, and the other ranks have waited for {:.1f} s: suspect "
        "the network, or these hosts\n",
        fmt::join(finding.silent_hosts, ", "), finding.silent_s, finding.waited_s);
  for (size_t i = 0; i < finding.culprits.size() && i < kMaxDescribed; ++i) {
    const auto* view = find_rank(views, finding.culprits[i]);
    if (!view) continue;
    text += fmt::format("{} has kept the others waiting for {:.1f} s{}\n  it is at {}\n",
                        describe_process(*view), finding.waited_s, describe_state(*view),
                        describe_place(*view));
  }
  if (finding.culprits.size() > kMaxDescribed)
    text += fmt::format("and {} more ranks\n", finding.culprits.size() - kMaxDescribed);
  if (finding.culprits.empty() && finding.silent_hosts.empty())
    text += fmt::format("all ranks have waited for each other for {:.1f} s: {}\n", finding.waited_s,
                        all_in_same_operation(views) ? "no rank is behind: suspect the network"
                                                     : "they are in different operations");
  size_t described = 0;
  for (const auto& view : views) {
    const auto& culprits = finding.culprits;
    const bool is_culprit =
        std::find(culprits.begin(), culprits.end(), view.progress.rank) != culprits.end();
    if (is_culprit || view.silent_s > kSilence || described++ >= kMaxDescribed) continue;
    text += fmt::format("  rank {}: {}\n", view.progress.rank, describe_place(view));
  }
  for (const auto rank : finding.culprits)
    if (const auto* view = find_rank(views, rank); view && !view->stacks.empty())
      text += fmt::format("  stacks of rank {}:\n{}", rank, view->stacks);
  return text;
}

}  // namespace lockstep::launch
