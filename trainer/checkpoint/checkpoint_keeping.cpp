#include "trainer/checkpoint/checkpoint_keeping.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <vector>

#include "lockstep/error.h"
#include "trainer/checkpoint/checkpoint.h"

namespace lockstep::trainer {
namespace {

using Heads = std::map<int64_t, CheckpointHead>;  // by step

// Whether the manifest, which could not be read because of `error`, is not corrupt, but cannot be opened now, or
// was written by another version.
bool may_be_good(const std::filesystem::path& manifest, const Error& error) {
  return error.kind() == ErrorKind::Config || !std::ifstream(manifest).is_open();
}

// Skips checkpoints that cannot be read; those of them that may be good are added to `unknown`.
Heads heads_of(const std::filesystem::path& checkpoints, const std::vector<int64_t>& steps,
               std::set<int64_t>& unknown) {
  Heads heads;
  for (const auto step : steps) {
    try {
      heads.emplace(step, read_checkpoint_head(checkpoints, step));
    } catch (const Error& error) {
      if (may_be_good(checkpoints / std::to_string(step) / "manifest.json", error))
        unknown.insert(step);
    } catch (const std::exception&) {  // JSON's, for a manifest with missing keys
    }
  }
  return heads;
}

bool is_milestone(const Position& position, const Period& every) {
  if (every.unit == Period::Unit::Steps) return position.step % every.count == 0;
  return position.samples == 0 && position.epoch % every.count == 0;
}

std::vector<int64_t> best_steps(const Heads& heads, const KeepBestConfig& config) {
  std::vector<std::pair<double, int64_t>> found;
  for (const auto& [step, head] : heads) {
    const auto value = head.evaluation.find(config.metric);
    if (value == head.evaluation.end() || !std::isfinite(value->second)) continue;
    found.emplace_back(config.mode == MetricMode::Min ? value->second : -value->second, step);
  }
  std::ranges::sort(found);
  std::vector<int64_t> steps;
  for (const auto& [value, step] : found)
    if (std::ssize(steps) < *config.count) steps.push_back(step);
  return steps;
}

}  // namespace

void prune_checkpoints(const std::filesystem::path& checkpoints, int64_t newest,
                       const KeepOptions& keep) {
  const auto all = list_checkpoints(checkpoints);
  const std::vector<int64_t> steps(all.begin(), std::ranges::upper_bound(all, newest));
  const auto latest = std::min(std::ssize(steps), static_cast<std::ptrdiff_t>(keep.last));
  std::set<int64_t> kept(steps.end() - latest, steps.end());
  if (keep.best.count || keep.every) {
    const auto heads = heads_of(checkpoints, steps, kept);
    if (keep.best.count)
      for (const auto step : best_steps(heads, keep.best)) kept.insert(step);
    for (const auto& [step, head] : heads)
      if (keep.every && is_milestone(head.position, *keep.every)) kept.insert(step);
  }
  for (const auto step : all)
    if (!kept.contains(step)) remove_checkpoint(checkpoints, step);
}

}  // namespace lockstep::trainer
