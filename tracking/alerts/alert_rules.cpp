#include "tracking/alerts/alert_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/printable.h"
#include "lockstep/error.h"
#include "tracking/log/system_metric.h"

namespace lockstep::tracking {
namespace {

constexpr double kMaxTick_s = 30;
constexpr size_t kMinLosses = 20;
constexpr double kSlowFor_s = 10;
constexpr int kMaxWatchedRanks = 100'000;
constexpr size_t kMaxValueRows = 10'000;
constexpr size_t kMaxMetricNameLength = 200;  // in a text

double seconds_of(const Duration& duration) {
  return std::chrono::duration<double>(duration.value).count();
}

void verify_factor(const char* key, double factor) {
  if (factor > 0 && factor <= 1)
    throw config_error(fmt::format(
        "tracking.alerts.{}: expected a factor above 1, or 0 to disable, got {}", key, factor));
}

// Metrics that differ by node or rank: each rank counts as a separate cause.
bool is_per_rank(std::string_view name) {
  return is_system_metric(name) || name.starts_with("rank/");
}

std::optional<double> value_of(const ScalarRow& row, std::string_view metric) {
  for (const auto& [name, value] : row.values)
    if (name == metric) return value;
  return std::nullopt;
}

bool is_running(const RankState& rank) { return rank.alive && !rank.ended; }

}  // namespace

void verify_alerts(const AlertConfig& config) {
  verify_factor("loss_spike", config.loss_spike);
  verify_factor("slow_rank", config.slow_rank);
}

AlertRules::AlertRules(const AlertConfig& config)
    : config_(config),
      causes_(seconds_of(config.repeat_after)),
      slow_(config.slow_rank, kSlowFor_s) {}

AlertRules::History* AlertRules::history(int rank) {
  const auto known = histories_.find(rank);
  if (known != histories_.end()) return &known->second;
  if (histories_.size() >= size_t{kMaxWatchedRanks}) return nullptr;
  return &histories_[rank];
}

void AlertRules::report(const std::string& cause, Alert alert) {
  if (causes_.mark_active(cause)) alerts_.push_back(std::move(alert));
}

std::vector<Alert> AlertRules::scalars(const ScalarRow& row, int rank) {
  alerts_.clear();
  for (const auto& metric : row.values) {
    check_metric(metric, row, rank);
    check_conditions(metric, row, rank);
  }
  note_step_times(row);
  return std::exchange(alerts_, {});
}

void AlertRules::check_metric(const Metric& metric, const ScalarRow& row, int rank) {
  const bool is_system = is_system_metric(metric.name);
  if (!is_system) last_step_ = std::max(last_step_, row.step);
  const bool is_training = metric.name.starts_with("train/") || metric.name.starts_with("eval/");
  auto* past = is_system ? nullptr : history(rank);
  if (past) past->logged = true;
  if (config_.nan && is_training && !std::isfinite(metric.value)) {
    const auto name = printable(metric.name, kMaxMetricNameLength);
    report("nan " + std::string(metric.name),
           {.time = row.time,
            .level = TextLevel::Error,
            .title = name + " is not a finite number",
            .text = fmt::format("{} is {} at step {} (rank {})", name,
                                without_nan_sign(metric.value), row.step, rank),
            .step = row.step});
  }
  if (metric.name == "train/loss") check_loss_spike(metric.value, row, rank);
  if (metric.name == "system/disk.percent" && config_.disk_percent < 100 &&
      metric.value > config_.disk_percent)
    report(fmt::format("disk {}", rank),
           {.time = row.time,
            .title = fmt::format("The disk of rank {} is almost full", rank),
            .text = fmt::format("{:.1f} % of the disk of the run directory is used (limit: {:g} %)",
                                metric.value, config_.disk_percent),
            .step = last_step_});
}

void AlertRules::check_loss_spike(double loss, const ScalarRow& row, int rank) {
  auto* past = history(rank);
  if (!past || !std::isfinite(loss)) return;  // NaN has a separate rule
  const auto enough = past->losses.size() >= kMinLosses;
  const auto median = enough ? past->losses.median() : 0;
  past->losses.add(loss);
  if (config_.loss_spike <= 0 || median <= 0 || loss <= config_.loss_spike * median) return;
  report("spike",
         {.time = row.time,
          .title = "train/loss spiked",
          .text = fmt::format("train/loss is {:.6g} at step {} (rank {}), {:.3g} times the "
                              "median of its last values ({:.6g})",
                              loss, row.step, rank, loss / median, median),
          .step = row.step});
}

void AlertRules::check_conditions(const Metric& metric, const ScalarRow& row, int rank) {
  for (size_t i = 0; i < config_.conditions.size(); ++i) {
    const auto& condition = config_.conditions[i];
    const auto step = is_system_metric(metric.name) ? last_step_ : row.step;
    if (!condition.matches(metric.name) || step < condition.after_steps) continue;
    const std::tuple key(i, std::string(metric.name), rank);
    if (!condition.holds(metric.value)) {
      consecutive_.erase(key);
      continue;
    }
    int64_t count = 1;
    if (condition.for_values > 1) {
      if (consecutive_.size() >= kMaxValueRows && !consecutive_.contains(key)) continue;
      count = std::min(++consecutive_[key], condition.for_values);
    }
    if (count < condition.for_values) continue;
    const auto name = printable(metric.name, kMaxMetricNameLength);
    const auto where = is_per_rank(metric.name) ? fmt::format(" (rank {})", rank) : std::string();
    report(
        fmt::format("condition {} {}{}", i, metric.name, where),
        {.time = row.time,
         .title = printable(condition.text, kMaxMetricNameLength) + where,
         .text = fmt::format("{} is {:.6g} at step {} (rank {}); condition: {}", name, metric.value,
                             step, rank, printable(condition.text, kMaxMetricNameLength)),
         .step = step});
  }
}

std::vector<Alert> AlertRules::tick(double now, std::span<const RankState> ranks) {
  alerts_.clear();
  const auto seconds = std::clamp(now - last_tick_.value_or(now), 0.0, kMaxTick_s);
  last_tick_ = now;
  causes_.advance(seconds);
  for (const auto& state : ranks) check_rank(state, seconds, now);
  check_slow_rank(ranks, seconds, now);
  return std::exchange(alerts_, {});
}

void AlertRules::check_rank(const RankState& state, double seconds, double now) {
  auto* past = history(state.rank);
  if (!past) return;
  const bool was_idle = !std::exchange(past->logged, false) && is_running(state);
  past->idle_s = was_idle ? past->idle_s + seconds : 0;
  if (config_.lost_rank && !state.alive && !state.ended)
    report(fmt::format("lost {}", state.rank),
           {.time = now,
            .level = TextLevel::Error,
            .title = fmt::format("Rank {} is lost", state.rank),
            .text = fmt::format("The process of rank {} exited without reporting an outcome{}{}",
                                state.rank, state.note.empty() ? "" : ": ",
                                printable(state.note, kMaxMetricNameLength)),
            .step = std::nullopt});
  if (is_running(state) && config_.stall && past->idle_s >= seconds_of(*config_.stall))
    report(fmt::format("stall {}", state.rank),
           {.time = now,
            .title = fmt::format("Rank {} has stalled", state.rank),
            .text = fmt::format("Rank {} is alive but has logged nothing for {:.0f} s", state.rank,
                                past->idle_s),
            .step = std::nullopt});
}

// The step times of all ranks are in each record (trainer/loop/step_times.h).
void AlertRules::note_step_times(const ScalarRow& row) {
  const auto slowest = value_of(row, "time/slowest_rank");
  const auto seconds = value_of(row, "time/slowest_rank_s");
  const auto others = value_of(row, "time/other_ranks_s");
  if (config_.slow_rank <= 0 || !slowest || !seconds || !others) return;
  if (!(*slowest >= 0 && *slowest < kMaxWatchedRanks)) return;
  slow_.note({.step = row.step,
              .slowest = static_cast<int>(*slowest),
              .seconds = *seconds,
              .others = *others});
}

void AlertRules::check_slow_rank(std::span<const RankState> ranks, double seconds, double now) {
  if (std::none_of(ranks.begin(), ranks.end(), is_running)) return;
  slow_.advance(seconds);
  const auto slow = slow_.find();
  if (!slow) return;
  report(fmt::format("slow {}", slow->slowest),
         {.time = now,
          .title = fmt::format("Rank {} is slow", slow->slowest),
          .text =
              fmt::format("Rank {} takes {:.4g} s per step, {:.3g} times the median of the "
                          "other ranks ({:.4g} s)",
                          slow->slowest, slow->seconds, slow->seconds / slow->others, slow->others),
          .step = std::nullopt});
}

}  // namespace lockstep::tracking
