// Driver of bench/tracking.py: measures the tracker without a training. Prints one JSON object.
//   lockstep_bench_tracking scalars RUN_DIR NUM_SCALARS PER_CALL
//     one rank logs NUM_SCALARS values, PER_CALL of them in each call, to its event log
//   lockstep_bench_tracking ranks RUN_DIR NUM_RANKS NUM_METRICS NUM_STEPS NUM_THREADS CONFIG
//     NUM_RANKS ranks of one job (`ranks: all`) log as fast as possible; CONFIG: the configuration
//     of the run, as JSON. Prints "ready" once all logs are open; starts at a line on stdin.
#include <chrono>
#include <iostream>
#include <thread>

#include "lockstep/error.h"
#include "lockstep/tracker.h"
#include "tracking/runs/run_directory.h"

using namespace lockstep;

namespace {

using Clock = std::chrono::steady_clock;
constexpr const char* kJobId = "bench";

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

RunInfo process_of(int rank, int world_size) {
  return {.id = kJobId,
          .name = kJobId,
          .job_id = kJobId,
          .rank = rank,
          .world_size = world_size,
          .local_rank = rank};
}

std::vector<std::string> metric_names(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back("bench/metric-" + std::to_string(i));
  return names;
}

std::vector<Metric> metrics_of(const std::vector<std::string>& names) {
  std::vector<Metric> metrics;
  for (const auto& name : names) metrics.push_back({name, 0});
  return metrics;
}

// Varying values, as in a training.
void log_step(Tracker& tracker, int64_t step, std::vector<Metric>& metrics) {
  for (auto& metric : metrics) metric.value = 1 / static_cast<double>(step + 1);
  tracker.log(step, 0, metrics);
}

// Finishes `tracker` and returns the number of dropped records.
uint64_t finish(Tracker& tracker) {
  const auto report = tracker.finish({.state = RunState::Finished});
  if (!report.problem.empty()) std::cerr << report.problem << "\n";
  return report.num_dropped;
}

Json measure_scalars(const std::filesystem::path& run_dir, int64_t num_scalars, int per_call) {
  create_run_directory(run_dir, process_of(0, 1), Json::object());
  auto tracker = open_tracker({.run_dir = run_dir, .process = process_of(0, 1)});
  const auto names = metric_names(per_call);
  auto metrics = metrics_of(names);
  const auto begin = Clock::now();
  for (int64_t step = 0; step < num_scalars / per_call; ++step) log_step(tracker, step, metrics);
  const auto logged = seconds_since(begin);
  const auto num_dropped = finish(tracker);
  return {{"scalars", num_scalars / per_call * per_call},
          {"calling_s", logged},
          {"closed_s", seconds_since(begin)},
          {"dropped", num_dropped}};
}

struct Ranks {
  int num_ranks, num_metrics;
  int64_t num_steps;
  int num_threads;
  Json config;
};

std::vector<Tracker> open_ranks(const std::filesystem::path& run_dir, const Ranks& ranks) {
  create_run_directory(run_dir, process_of(0, ranks.num_ranks), ranks.config);
  std::vector<Tracker> trackers;
  for (int rank = 0; rank < ranks.num_ranks; ++rank)
    trackers.push_back(open_tracker({.run_dir = run_dir,
                                     .process = process_of(rank, ranks.num_ranks),
                                     .tracking = "{ranks: all}",
                                     .run_config = ranks.config}));
  return trackers;
}

// The ranks first, first + stride, ... log the same step before the next one.
uint64_t log_ranks(std::vector<Tracker>& trackers, size_t first, const Ranks& ranks) {
  const auto names = metric_names(ranks.num_metrics);
  auto metrics = metrics_of(names);
  const auto stride = static_cast<size_t>(ranks.num_threads);
  for (int64_t step = 0; step < ranks.num_steps; ++step)
    for (size_t rank = first; rank < trackers.size(); rank += stride)
      log_step(trackers[rank], step, metrics);
  uint64_t num_dropped = 0;
  for (size_t rank = first; rank < trackers.size(); rank += stride)
    num_dropped += finish(trackers[rank]);
  return num_dropped;
}

Json measure_ranks(const std::filesystem::path& run_dir, const Ranks& ranks) {
  auto trackers = open_ranks(run_dir, ranks);
  std::cout << "ready" << std::endl;
  std::string go;
  std::getline(std::cin, go);
  const auto begin = Clock::now();
  std::vector<uint64_t> dropped(static_cast<size_t>(ranks.num_threads));
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < dropped.size(); ++i)
    threads.emplace_back([&, i] { dropped[i] = log_ranks(trackers, i, ranks); });
  threads.clear();  // joins
  uint64_t num_dropped = 0;
  for (const auto count : dropped) num_dropped += count;
  return {{"closed_s", seconds_since(begin)}, {"dropped", num_dropped}};
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 4 && words[0] == "scalars")
    std::cout << measure_scalars(words[1], std::stoll(words[2]), std::stoi(words[3])) << "\n";
  else if (words.size() == 7 && words[0] == "ranks")
    std::cout << measure_ranks(words[1], {.num_ranks = std::stoi(words[2]),
                                          .num_metrics = std::stoi(words[3]),
                                          .num_steps = std::stoll(words[4]),
                                          .num_threads = std::stoi(words[5]),
                                          .config = Json::parse(words[6])})
              << "\n";
  else
    return 64;
  return 0;
} catch (const Error& error) {
  std::cerr << error.what() << "\n";
  return error.exit_code();
}
