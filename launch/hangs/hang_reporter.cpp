#include "launch/hangs/hang_reporter.h"

#include <algorithm>

#include "core/printable.h"
#include "core/system/durable_file.h"
#include "launch/hangs/hang_finding.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

constexpr std::chrono::milliseconds kReportInterval{500};
constexpr std::chrono::milliseconds kDumpAfter{1500};            // for stacks to arrive
constexpr size_t kMaxTextLength = 200, kMaxStacksLength = 4000;  // in a report

bool has_stacks(const WatchedWorker& worker, uint32_t request) {
  return worker.page->wait_for_stacks(request, std::chrono::milliseconds(0));
}

// The page is written by the rank and may contain anything.
void sanitize(RankView& view) {
  for (auto* text : {&view.progress.operation, &view.progress.detail, &view.bucket})
    *text = printable(*text, kMaxTextLength);
  view.stacks.resize(std::min(view.stacks.size(), kMaxStacksLength));
  view.stacks.resize(std::min(view.stacks.size(), find_invalid_utf8(view.stacks)));
}

}  // namespace

void HangReporter::begin(const std::vector<WatchedWorker>& workers,
                         std::filesystem::path directory) {
  end();
  for (const auto& worker : workers) local_ranks_.push_back({worker, std::nullopt});
  directory_ = std::move(directory);
}

void HangReporter::end() {
  local_ranks_.clear();
  dump_at_.reset();
}

std::vector<RankView> HangReporter::views() const {
  std::vector<RankView> views;
  for (const auto& [worker, request] : local_ranks_) {
    auto view = view_rank(*worker.page, worker.rank, host_, worker.pid);
    if (!view) continue;
    if (request && has_stacks(worker, *request)) view->stacks = worker.page->stacks();
    views.push_back(std::move(*view));
  }
  return views;
}

std::optional<std::vector<RankView>> HangReporter::next_views() {
  const auto now = Clock::now();
  const bool were_pending = std::exchange(stacks_pending_, is_waiting_for_stacks());
  if (now - reported_at_ < kReportInterval && !were_pending) return std::nullopt;
  reported_at_ = now;
  auto reported = views();
  for (auto& view : reported) sanitize(view);
  return reported;
}

void HangReporter::handle(const StackRequest& request) {
  for (auto& local : local_ranks_)
    if (request.dump || std::ranges::find(request.ranks, local.worker.rank) != request.ranks.end())
      local.request = local.worker.page->request_stacks();
  if (request.dump) dump_at_ = Clock::now() + kDumpAfter;
  stacks_pending_ = is_waiting_for_stacks();
}

bool HangReporter::is_waiting_for_stacks() const {
  return std::ranges::any_of(local_ranks_, [](const LocalRank& local) {
    return local.request && !has_stacks(local.worker, *local.request);
  });
}

void HangReporter::write_due_dump() {
  if (!dump_at_ || Clock::now() < *dump_at_) return;
  dump_at_.reset();
  std::string text;
  for (const auto& view : views()) text += describe_rank(view) + "\n";
  const auto path = directory_ / "hang.txt";
  try {
    write_file_durably(path, text);
    notes_.push_back("wrote the state of all ranks of this node to " + path.string());
  } catch (const Error& error) {
    notes_.push_back(error.what());
  }
}

}  // namespace lockstep::launch
