#include "launch/hangs/hang_reporter.h"

#include <algorithm>

#include "core/printable.h"
#include "core/system/durable_file.h"
#include "launch/hangs/hang_finding.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

constexpr std::chrono::milliseconds kTellEvery{500};
constexpr std::chrono::milliseconds kDumpAfter{1500};        // for stacks to arrive
constexpr size_t kMaxTextLength = 200, kMaxStacksLength = 4000;  // that are told

bool has_answered(const WatchedWorker& worker, uint32_t request) {
  return worker.page->wait_for_stacks(request, std::chrono::milliseconds(0));
}

// What a rank writes into its page may be anything.
void make_fit_to_tell(RankView& view) {
  for (auto* text : {&view.progress.operation, &view.progress.detail, &view.bucket})
    *text = printable(*text, kMaxTextLength);
  view.stacks.resize(std::min(view.stacks.size(), kMaxStacksLength));
  view.stacks.resize(std::min(view.stacks.size(), find_invalid_utf8(view.stacks)));
}

}  // namespace

void HangReporter::begin(const std::vector<WatchedWorker>& workers,
                         std::filesystem::path directory) {
  end();
  for (const auto& worker : workers) own_.push_back({worker, std::nullopt});
  directory_ = std::move(directory);
}

void HangReporter::end() {
  own_.clear();
  dump_at_.reset();
}

std::vector<RankView> HangReporter::views() const {
  std::vector<RankView> views;
  for (const auto& [worker, request] : own_) {
    auto view = view_rank(*worker.page, worker.rank, host_, worker.pid);
    if (!view) continue;
    if (request && has_answered(worker, *request)) view->stacks = worker.page->stacks();
    views.push_back(std::move(*view));
  }
  return views;
}

std::optional<std::vector<RankView>> HangReporter::next_views() {
  const auto now = Clock::now();
  const bool owed_stacks = std::exchange(owes_stacks_, is_waiting_for_stacks());
  if (now - told_at_ < kTellEvery && !owed_stacks) return std::nullopt;
  told_at_ = now;
  auto told = views();
  for (auto& view : told) make_fit_to_tell(view);
  return told;
}

void HangReporter::take(const StackRequest& request) {
  for (auto& own : own_)
    if (request.dump || std::ranges::find(request.ranks, own.worker.rank) != request.ranks.end())
      own.request = own.worker.page->request_stacks();
  if (request.dump) dump_at_ = Clock::now() + kDumpAfter;
  owes_stacks_ = is_waiting_for_stacks();
}

bool HangReporter::is_waiting_for_stacks() const {
  return std::ranges::any_of(
      own_, [](const Own& own) { return own.request && !has_answered(own.worker, *own.request); });
}

void HangReporter::write_due_dump() {
  if (!dump_at_ || Clock::now() < *dump_at_) return;
  dump_at_.reset();
  std::string text;
  for (const auto& view : views()) text += describe_rank(view) + "\n";
  const auto path = directory_ / "hang.txt";
  try {
    write_file_durably(path, text);
    notes_.push_back("what every rank here was doing: " + path.string());
  } catch (const Error& error) {
    notes_.push_back(error.what());
  }
}

}  // namespace lockstep::launch
