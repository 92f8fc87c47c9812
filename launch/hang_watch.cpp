#include "launch/hang_watch.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/durable_file.h"
#include "core/error.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kTellEvery{500};
constexpr std::chrono::milliseconds kStackTime{1500};  // for stacks to arrive
constexpr double kTellAgain = 10;  // times as long as it had lasted when it was told last

std::vector<RankView> parse_views(const std::map<int, NodeStatus>& by_node) {
  std::vector<RankView> views;
  for (const auto& [node, status] : by_node) {
    if (!status.value.is_array()) continue;
    for (const auto& json : status.value) {
      auto view = rank_view_from_json(json);
      if (!view) continue;
      view->silent_s = status.silent_s;
      views.push_back(std::move(*view));
    }
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

std::optional<RankView> HangWatch::Own::view(const std::string& host) const {
  auto view = view_rank(*worker.page, worker.rank, host, worker.pid);
  const bool has_stacks =
      request && worker.page->wait_for_stacks(*request, std::chrono::milliseconds(0));
  if (view && has_stacks) view->stacks = worker.page->stacks();
  return view;
}

StatusExchange HangWatch::exchange() {
  return {.local = [this] { return local(); },
          .judge = [this](const auto& by_node) { return judge(by_node); },
          .explain = [this](auto& attempt) { explain(attempt); },
          .take_answer = [this](const auto& answer) { take_answer(answer); }};
}

void HangWatch::begin(const std::vector<WatchedWorker>& workers, std::filesystem::path directory) {
  end();
  forget_hang();
  last_step_ = 0;
  for (const auto& worker : workers) own_.push_back({worker, std::nullopt});
  directory_ = std::move(directory);
}

void HangWatch::end() {
  own_.clear();
  dump_at_.reset();
  last_local_ = nullptr;
  key_.clear();
}

void HangWatch::forget_hang() {
  key_.clear();
  told_ = dumped_ = false;
  culprit_.reset();
}

nlohmann::json HangWatch::local() {
  const auto now = Clock::now();
  if (dump_at_ && now >= *dump_at_) write_dump();
  const bool owed_stacks = std::exchange(owes_stacks_, is_waiting_for_stacks());
  if (now - told_local_ < kTellEvery && !owed_stacks) return last_local_;
  told_local_ = now;
  last_local_ = nlohmann::json::array();
  for (const auto& own : own_) {
    if (auto view = own.view(host_)) last_local_.push_back(to_json(*view));
  }
  return last_local_;
}

void HangWatch::take_answer(const nlohmann::json& answer) {
  const auto asked = answer.value("stacks", std::vector<int>());
  const bool wants_dump = answer.value("dump", false);
  for (auto& own : own_)
    if (wants_dump || std::find(asked.begin(), asked.end(), own.worker.rank) != asked.end())
      own.request = own.worker.page->request_stacks();
  if (wants_dump) dump_at_ = Clock::now() + kStackTime;
  owes_stacks_ = is_waiting_for_stacks();
}

bool HangWatch::is_waiting_for_stacks() const {
  return std::any_of(own_.begin(), own_.end(), [](const Own& own) {
    return own.request &&
           !own.worker.page->wait_for_stacks(*own.request, std::chrono::milliseconds(0));
  });
}

void HangWatch::write_dump() {
  dump_at_.reset();
  std::string text;
  for (const auto& own : own_) {
    if (auto view = own.view(host_)) text += describe_rank(*view) + "\n";
  }
  const auto path = directory_ / "hang.txt";
  try {
    write_file_durably(path, text);
    notes_.push_back("what every rank here was doing: " + path.string());
  } catch (const Error& error) {
    notes_.push_back(error.what());
  }
}

nlohmann::json HangWatch::judge(const std::map<int, NodeStatus>& by_node) {
  const auto views = parse_views(by_node);
  for (const auto& view : views) last_step_ = std::max(last_step_, view.progress.step);
  if (const auto finding = find_hang(views)) return follow(*finding, views);
  // One that only gave up waiting has not gone on.
  if (told_ && operations_of(views) <= told_operations_) return nullptr;
  if (told_) notes_.push_back("the ranks go on");
  forget_hang();
  return nullptr;
}

void HangWatch::explain(LaunchReport& attempt) const {
  attempt.last_step = last_step_;
  for (auto& worker : attempt.workers)
    if (culprit_ && worker.rank == culprit_->first) worker.hang = culprit_->second;
}

nlohmann::json HangWatch::follow(const HangFinding& finding, const std::vector<RankView>& views) {
  const auto now = Clock::now();
  if (finding.key != key_) {
    forget_hang();
    key_ = finding.key;
    asked_at_ = now;
    return {{"stacks", finding.culprits}};
  }
  const bool has_all = has_stacks_of(views, finding.culprits) || now - asked_at_ > kStackTime;
  const bool is_due = !told_ || finding.waited_s > told_again_after_s_;
  const auto text = describe_hang(finding, views);
  summary_ = text.substr(0, text.find('\n'));
  if (has_all && is_due) {
    notes_.push_back("warning: " + text.substr(0, text.size() - 1));
    told_ = true;
    told_operations_ = operations_of(views);
    told_again_after_s_ = kTellAgain * finding.waited_s;
  }
  if (!finding.is_overdue()) return nullptr;
  for (const auto& view : views)
    if (!finding.culprits.empty() && view.progress.rank == finding.culprits.front())
      culprit_ = {view.progress.rank, describe_culprit(view, finding.timeout_s)};
  if (std::exchange(dumped_, true)) return nullptr;
  notes_.push_back(fmt::format("error: {}; the ranks that wait give up after {:g} s", summary_,
                               finding.timeout_s));
  return {{"dump", true}};
}

}  // namespace lockstep
