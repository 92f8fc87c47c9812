#include "cli/runs/runs_watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>

#include "catalog/index/column_spool.h"
#include "catalog/run_list.h"
#include "catalog/run_logs.h"
#include "cli/aligned_text.h"
#include "cli/command_words.h"
#include "cli/runs/runs_view.h"
#include "cli/runs_place.h"
#include "core/config/launch_sections.h"
#include "core/printable.h"
#include "launch/signal_watch.h"
#include "lockstep/error.h"
#include "tracking/log/unix_time.h"

namespace lockstep::cli {
namespace {

constexpr int kRefreshMs = 500;
constexpr size_t kCurveWidth = 32, kMinLines = 12;

struct TerminalSize {
  size_t lines = 24, columns = 80;
};

TerminalSize terminal_size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return {};
  return {size.ws_row, size.ws_col};
}

std::string value_text(double value) { return fmt::format("{:.5g}", value); }

std::string headline(const catalog::RunSummary& run) {
  const auto planned = run.info.planned.steps;
  auto text = fmt::format("{}  {}  step {}{}  epoch {:.2f}  {:.0f} s", printable(run.id, 100),
                          state_name(run.state), run.step,
                          planned > 0 ? fmt::format(" of {}", planned) : "", run.epoch,
                          run.duration(tracking::unix_now()));
  if (run.num_ranks > 1) text += fmt::format("  {} ranks", run.num_ranks);
  if (run.num_alerts > 0) text += fmt::format("  {} alerts", run.num_alerts);
  return text;
}

struct WatchedMetric {
  const catalog::LogIndex* log = nullptr;
  const catalog::MetricTotals* totals = nullptr;
};

std::vector<TextRow> metric_rows(const catalog::RunLogs& logs, const catalog::NameTable& names,
                                 size_t max_rows) {
  return logs.look([&](const auto& all) {
    std::map<std::pair<int, std::string>, WatchedMetric> metrics;
    for (const auto& log : all)
      for (const auto& totals : log->summary().metrics) {
        const auto& name = names.text(totals.name);
        if (totals.count > 0) metrics.try_emplace({metric_order(name), name}, log.get(), &totals);
      }
    std::vector<TextRow> rows = {{"metric", "last", "min", "max", "curve"}};
    for (const auto& [key, metric] : metrics) {
      if (rows.size() > max_rows) break;
      const auto& totals = *metric.totals;
      rows.push_back({printable(key.second, 40), value_text(totals.last), value_text(totals.min),
                      value_text(totals.max),
                      small_curve(metric.log->read(totals.name, {}).value, kCurveWidth)});
    }
    return rows;
  });
}

// One row per rank, to find ranks that lag, are slow or lost.
std::vector<TextRow> rank_rows(const catalog::RunSummary& run, const catalog::NameTable& names,
                               size_t max_rows) {
  std::vector<TextRow> rows = {{"rank", "state", "step", "step time"}};
  const auto step_time = names.find("rank/step_time_s");
  for (const auto& source : run.sources) {
    if (source.is_node || rows.size() > max_rows) continue;
    const auto it = std::ranges::find(source.metrics, step_time, &catalog::MetricTotals::name);
    rows.push_back({std::to_string(source.number), state_name(source.state),
                    std::to_string(source.step),
                    it == source.metrics.end() ? "-" : fmt::format("{:.4g} s", it->mean())});
  }
  return rows;
}

// `problems`: in addition to those of the run.
void show_run(const catalog::RunLogs& logs, catalog::NameTable& names, bool whole,
              const std::vector<std::string>& problems, std::ostream& out) {
  const auto run = summarize_run(logs, names);
  const auto size = terminal_size();
  const auto lines = whole ? SIZE_MAX / 4 : std::max(size.lines, kMinLines) - 3;
  const auto ranks = run.num_ranks > 1 ? rank_rows(run, names, lines / 3) : std::vector<TextRow>();
  out << headline(run) << "\n\n";
  print_aligned(metric_rows(logs, names, lines - std::min(lines / 2, ranks.size() + 2)), out);
  if (!ranks.empty()) {
    out << "\n";
    print_aligned(ranks, out);
  }
  auto all = run.problems();
  all.insert(all.end(), problems.begin(), problems.end());
  for (const auto& problem : all) out << "problem: " << printable(problem, 200) << "\n";
}

bool is_running(const catalog::RunLogs& logs) {
  return logs.look([](const auto& all) {
    return std::ranges::any_of(
        all, [](const auto& log) { return log->summary().state == RunState::Running; });
  });
}

}  // namespace

std::string small_curve(const std::vector<double>& values, size_t width) {
  static const char* const kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const auto columns = std::min(width, values.size());
  std::vector<double> means(columns, std::nan(""));
  auto low = std::nan(""), high = std::nan("");
  for (size_t i = 0; i < columns; ++i) {
    double sum = 0;
    size_t count = 0;
    for (size_t k = i * values.size() / columns; k < (i + 1) * values.size() / columns; ++k)
      if (std::isfinite(values[k])) {
        sum += values[k];
        ++count;
      }
    if (count > 0) means[i] = sum / static_cast<double>(count);
    low = std::fmin(low, means[i]);
    high = std::fmax(high, means[i]);
  }
  std::string text;
  for (const auto mean : means) {
    const auto height = high > low ? (mean - low) / (high - low) : 0;
    text += std::isnan(mean) ? " " : kBlocks[std::min(7, static_cast<int>(height * 8))];
  }
  return text;
}

int watch_run(const std::vector<std::string>& words, std::ostream& out) {
  cxxopts::Options known("lockstep runs watch");
  known.add_options()("dir", "", cxxopts::value<std::string>()->default_value(kRunsDir))("once",
                                                                                         "");
  known.add_options(kPositional)("id", "", cxxopts::value<std::string>());
  known.parse_positional({"id"});
  const auto parsed = parse_words(known, words);
  if (!parsed.count("id"))
    throw config_error("lockstep runs watch: missing run ID; 'lockstep runs list' lists the runs");
  launch::SignalWatch signals;  // before any thread is started
  const auto id = parsed["id"].as<std::string>();
  RunsPlace place(parsed["dir"].as<std::string>(), {id}, RunsPlace::Keeps::UpToDate,
                  [](const std::string&) {});  // they are shown
  if (!place.wait([&] { return signals.next().has_value(); })) return 0;
  const auto& dir = place.directory();
  const auto run_dir = place.call([&] { return catalog::find_run_directory(dir, id); });
  catalog::NameTable names;
  catalog::ColumnSpool spool({dir, "/var/tmp", "/tmp"});
  catalog::RunLogs logs(run_dir, names, &spool);
  const bool once = parsed.count("once") > 0 || ::isatty(STDOUT_FILENO) != 1;
  while (true) {
    logs.catch_up();
    if (!once) out << "\x1b[H\x1b[2J";
    show_run(logs, names, once, place.problems(), out);
    out.flush();
    if (once || !is_running(logs)) return 0;
    auto wanted = signals.poll_request();
    ::poll(&wanted, 1, kRefreshMs);
    if (signals.next()) return 0;
  }
}

}  // namespace lockstep::cli
