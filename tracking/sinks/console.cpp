// The console sink. On a terminal: a progress line that is rewritten in place, and a permanent line
// per evaluation. In a file or pipe: progress lines and a line per evaluation, without control
// characters. Progress is limited to one line per `interval`; the last progress before any other
// line is always shown. (With a line per step of 2 ms, waking the reading process cost ranks that
// use every core a tenth of their speed.)
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/config/period.h"
#include "lockstep/sink.h"

namespace lockstep::tracking {
namespace {

struct ConsoleConfig {
  Duration interval{std::chrono::seconds(1)};
};
template <class V>
void fields(V& v, ConsoleConfig& c) {
  v("interval", c.interval, "show progress at most this often");
}

constexpr std::string_view kSpeed = "samples_per_s";
constexpr const char *kRed = "\x1b[31m", *kYellow = "\x1b[33m", *kGreen = "\x1b[32m",
                     *kReset = "\x1b[0m";

// "train/loss" is "loss" on a line about training.
std::string_view short_name(std::string_view name) { return name.substr(name.find('/') + 1); }

std::string with_thousands(double value) {
  const auto digits = fmt::format("{:.0f}", value);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0 && digits[i - 1] != '-') text += ',';
    text += digits[i];
  }
  return text;
}

std::string clock_text(double seconds) {
  const auto total = static_cast<int64_t>(std::clamp(seconds, 0.0, 1e9));
  if (total < 3600) return fmt::format("{}:{:02}", total / 60, total % 60);
  return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
}

// A copy of a row that reuses its memory, so that copying a row per step is cheap.
class PendingRow {
 public:
  void set(const ScalarRow& row) {
    step_ = row.step;
    time_ = row.time;
    epoch_ = row.epoch;
    if (names_.size() < row.values.size()) names_.resize(row.values.size());
    metrics_.clear();
    for (const auto& metric : row.values) {
      auto& name = names_[metrics_.size()];
      name.assign(metric.name);
      metrics_.push_back({name, metric.value});
    }
    has_row_ = true;
  }
  void reset() { has_row_ = false; }
  bool has_row() const { return has_row_; }
  ScalarRow row() const {
    return {.step = step_, .time = time_, .epoch = epoch_, .values = metrics_};
  }

 private:
  int64_t step_ = 0;
  double time_ = 0, epoch_ = 0;
  std::vector<std::string> names_;
  std::vector<Metric> metrics_;  // views of the names
  bool has_row_ = false;
};

class ConsoleSink final : public Sink {
 public:
  using Config = ConsoleConfig;
  ConsoleSink(const Config& config, const SinkContext& context)
      : console_(context.console),
        interval_(std::chrono::duration<double>(config.interval.value).count()) {}

  void run_started(const RunInfo& info, const Json&) override {
    started_ = info.created;
    id_ = info.job_id;
    length_ = info.planned;
    keep(fmt::format("run {} on {} rank{}", id_, info.world_size, info.world_size == 1 ? "" : "s"));
  }

  void scalars(const ScalarRow& row) override {
    last_time_ = row.time;
    if (!console_.out) return;
    if (has_axis(row, "eval/")) return keep(paint(kGreen, "eval") + evaluation(row));
    if (!has_axis(row, "train/")) return;
    if (first_time_ == 0 || row.step < first_step_) {
      first_time_ = row.time;
      first_step_ = row.step;
    }
    // abs(): a clock that was set back must not suppress progress.
    const auto passed = std::abs(row.time - shown_time_);
    if (passed < interval_) return pending_.set(row);
    shown_time_ = row.time;
    progress(row);
  }

  void text(const TextLine& text) override {
    const auto& [time, level, line] = text;
    if (level == TextLevel::Debug) return;
    const char* color = level == TextLevel::Error     ? kRed
                        : level == TextLevel::Warning ? kYellow
                                                      : nullptr;
    keep(level == TextLevel::Info ? line
                                  : fmt::format("{}: {}", paint(color, level_name(level)), line));
  }

  void alert(const Alert& alert) override {
    text({.time = alert.time,
          .level = alert.level,
          .line = alert.text.empty() ? alert.title : alert.title + ": " + alert.text});
  }

  void run_finished(const RunEnd& end) override {
    const auto state =
        paint(end.state == RunState::Finished ? kGreen : kRed, state_name(end.state));
    const auto took =
        last_time_ > started_ && started_ > 0 ? " in " + clock_text(last_time_ - started_) : "";
    keep(fmt::format("run {} {}{}{}{}", id_, state, took, end.reason.empty() ? "" : ": ",
                     end.reason));
  }

 private:
  static bool has_axis(const ScalarRow& row, std::string_view axis) {
    return std::ranges::any_of(row.values,
                               [&](const Metric& metric) { return metric.name.starts_with(axis); });
  }

  std::string position(const ScalarRow& row) const {
    auto text = fmt::format("epoch {:.2f}", row.epoch);
    if (length_.epochs > 0) text += fmt::format("/{:g}", length_.epochs);
    text += fmt::format("  step {}", row.step);
    if (length_.steps > 0) text += fmt::format("/{}", length_.steps);
    return text;
  }

  // The loss first, the speed last, the others in their order.
  static std::string measurements(const ScalarRow& row) {
    std::string loss, others, speed;
    for (const auto& [name, value] : row.values) {
      if (!name.starts_with("train/")) continue;
      if (name == "train/loss") {
        loss = fmt::format("  loss {:.4f}", without_nan_sign(value));
      } else if (short_name(name) == kSpeed) {
        speed = fmt::format("  {} samples/s", with_thousands(value));
      } else {
        others += fmt::format("  {} {:.4g}", short_name(name), without_nan_sign(value));
      }
    }
    return loss + others + speed;
  }

  static std::string evaluation(const ScalarRow& row) {
    auto text = fmt::format("  epoch {:.2f}  step {}", row.epoch, row.step);
    for (const auto& [name, value] : row.values)
      if (name.starts_with("eval/"))
        text += fmt::format("  {} {:.4f}", short_name(name), without_nan_sign(value));
    return text;
  }

  std::string time_left(const ScalarRow& row) const {
    const auto done = row.step - first_step_;
    const auto passed = row.time - first_time_;
    if (length_.steps <= row.step || done <= 0 || passed <= 0) return "";
    const auto left =
        passed / static_cast<double>(done) * static_cast<double>(length_.steps - row.step);
    return "  left " + clock_text(left);
  }

  std::string paint(const char* color, std::string_view text) const {
    return console_.color && color ? fmt::format("{}{}{}", color, text, kReset) : std::string(text);
  }

  void progress(const ScalarRow& row) {
    pending_.reset();
    auto line = position(row) + measurements(row) + time_left(row);
    if (!console_.terminal) return keep(line);
    // A wrapped line cannot be rewritten in place.
    line.resize(std::min(line.size(), static_cast<size_t>(std::max(console_.columns - 1, 1))));
    *console_.out << "\r" << line << "\x1b[K" << std::flush;
    open_line_ = true;
  }

  // Writes a permanent line above the progress line.
  void keep(const std::string& line) {
    if (!console_.out) return;
    if (pending_.has_row()) progress(pending_.row());
    if (open_line_) *console_.out << "\r\x1b[K";
    open_line_ = false;
    *console_.out << line << "\n" << std::flush;
  }

  ConsoleOptions console_;
  RunLength length_;
  std::string id_;
  double started_ = 0, first_time_ = 0, last_time_ = 0;
  int64_t first_step_ = 0;
  double interval_ = 0, shown_time_ = 0;
  PendingRow pending_;  // the last progress that was not shown yet
  bool open_line_ = false;
};

REGISTER_SINK("console", ConsoleSink, "progress on the terminal, steady lines in a file");

}  // namespace
}  // namespace lockstep::tracking
