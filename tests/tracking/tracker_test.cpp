#include "lockstep/tracker.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <sstream>
#include <stdexcept>

#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tests/temporary_directory.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/log/log_tail.h"
#include "tracking/runs/end_facts.h"
#include "tracking/runs/run_directory.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

// A terminal that fails.
class BrokenBuffer final : public std::streambuf {
  int overflow(int) override { throw std::runtime_error("the terminal is gone"); }
};

TrackerOptions options_for(const std::filesystem::path& run_dir, int rank = 0) {
  return {
      .run_dir = run_dir,
      .process = {.id = "job-1", .name = "mnist", .job_id = "job-1", .rank = rank, .world_size = 2},
      .run_config = {{"a", 1}}};
}

void log_loss(Tracker& tracker, int64_t step, double value) {
  const std::array<Metric, 1> metrics = {{{"train/loss", value}}};
  tracker.log(step, 0.5, metrics);
}

}  // namespace

TEST_CASE("tracker: records are in the event log of the rank") {
  const TemporaryDirectory dir;
  auto tracker = open_tracker(options_for(dir.path()));
  log_loss(tracker, 1, 2.5);
  tracker.text(TextLevel::Info, "hello");
  tracker.summary("best", 0.5);
  const auto report = tracker.finish({.state = RunState::Finished});
  CHECK(report.num_dropped == 0);
  CHECK(report.problem.empty());
  const auto log = read_event_log(event_log_path(dir.path(), 0));
  CHECK(log.info->id == "job-1");
  CHECK(log.info->created > 1.6e9);
  CHECK(log.config["a"] == 1);
  REQUIRE(log.rows.size() == 1);
  CHECK(log.rows[0].time > 1.6e9);
  CHECK(log.texts.at(0).line == "hello");
  CHECK(log.summary["best"] == 0.5);
  CHECK(log.end->state == RunState::Finished);
}

TEST_CASE("tracker: a rank that does not log leaves no file, and every call succeeds") {
  const TemporaryDirectory dir;
  auto tracker = open_tracker(options_for(dir.path(), 1));
  CHECK_FALSE(tracker.is_logging());
  log_loss(tracker, 1, 2.5);
  tracker.text(TextLevel::Info, "hello");
  tracker.summary("best", 0.5);
  CHECK(tracker.finish({}).problem.empty());
  CHECK_FALSE(std::filesystem::exists(dir / "events"));
}

TEST_CASE("tracker: after finish() nothing is recorded") {
  const TemporaryDirectory dir;
  auto tracker = open_tracker(options_for(dir.path()));
  tracker.finish({});
  log_loss(tracker, 1, 2.5);
  CHECK_FALSE(tracker.is_logging());
  CHECK(read_event_log(event_log_path(dir.path(), 0)).rows.empty());
}

TEST_CASE("tracker: a resumed run replaces what was logged after the step it continues from") {
  const TemporaryDirectory dir;
  {
    auto tracker = open_tracker(options_for(dir.path()));
    for (int step = 1; step <= 5; ++step) log_loss(tracker, step, 1);
  }
  auto options = options_for(dir.path());
  options.resume_step = 3;
  auto tracker = open_tracker(options);
  log_loss(tracker, 4, 2);
  tracker.finish({});
  const auto log = read_event_log(event_log_path(dir.path(), 0));
  REQUIRE(log.rows.size() == 4);
  CHECK(log.rows.back().step == 4);
  CHECK(log.rows.back().values[0].second == 2);
}

TEST_CASE("tracker: values of the step of a resume exist once, for any number of resumes") {
  const TemporaryDirectory dir;
  const auto evaluate = [](Tracker& tracker, double loss) {
    const std::array<Metric, 2> metrics = {{{"eval/loss", loss}, {"eval/accuracy", 0.5}}};
    tracker.log(3, 0.5, metrics);
  };
  auto options = options_for(dir.path());
  {
    auto tracker = open_tracker(options);
    for (int step = 1; step <= 5; ++step) log_loss(tracker, step, 1);
  }
  options.resume_step = 3;
  for (int attempt = 0; attempt < 3; ++attempt) {  // each killed before its next checkpoint
    auto tracker = open_tracker(options);
    evaluate(tracker, 0.25);
    for (int step = 4; step <= 4 + attempt; ++step) log_loss(tracker, step, 2 + attempt);
  }
  options.resume_step = 2;  // from an earlier checkpoint: the evaluation is rewound
  {
    auto tracker = open_tracker(options);
    log_loss(tracker, 3, 9);
    evaluate(tracker, 0.125);
  }
  const auto log = read_event_log(event_log_path(dir.path(), 0));
  std::map<std::string, std::vector<double>> values;
  for (const auto& row : log.rows)
    for (const auto& [key, value] : row.values)
      values[log.keys[key] + "@" + std::to_string(row.step)].push_back(value);
  CHECK(values == std::map<std::string, std::vector<double>>{{"train/loss@1", {1}},
                                                             {"train/loss@2", {1}},
                                                             {"train/loss@3", {9}},
                                                             {"eval/loss@3", {0.125}},
                                                             {"eval/accuracy@3", {0.5}}});
}

TEST_CASE("tracker: a new run rewinds nothing, a restart in its directory does") {
  const TemporaryDirectory dir;
  const auto num_rewinds = [&] {
    LogTail tail(event_log_path(dir.path(), 0));
    int count = 0;
    while (const auto record = tail.next()) count += std::holds_alternative<RewindRecord>(*record);
    return count;
  };
  auto options = options_for(dir.path());
  options.resume_step = 0;
  open_tracker(options).finish({});
  CHECK(num_rewinds() == 0);
  open_tracker(options).finish({});
  CHECK(num_rewinds() == 1);
}

TEST_CASE("tracker: a deleted or moved event log is reported immediately and in the report") {
  const TemporaryDirectory dir;
  for (const bool is_moved : {false, true}) {
    const auto run = dir / (is_moved ? "moved" : "deleted"), there = dir / "there";
    std::ostringstream out;
    auto options = options_for(run);
    options.console.out = &out;
    auto tracker = open_tracker(options);
    log_loss(tracker, 1, 1);
    CHECK(out.str().find("error") == std::string::npos);
    if (is_moved)
      std::filesystem::rename(run, there);
    else
      std::filesystem::remove_all(run);
    std::filesystem::create_directories(run / "checkpoints");
    const auto log = event_log_path(run, 0).string();
    const auto lost =
        "the event log of this run (" + log + ") was " +
        (is_moved ? "moved to " + event_log_path(there, 0).string() : std::string("deleted")) +
        " during the run";
    const auto report = tracker.finish({.state = RunState::Finished});
    CHECK(report.lost == lost);
    CHECK(out.str().find(lost + "; training continues") != std::string::npos);
  }
  CHECK(read_event_log(event_log_path(dir / "there", 0)).end.has_value());
  auto tracker = open_tracker(options_for(dir / "kept"));
  CHECK(tracker.finish({}).lost.empty());
}

TEST_CASE("tracker: a NaN has no sign, on the console and in the log") {
  const TemporaryDirectory dir;
  std::ostringstream out;
  auto options = options_for(dir.path());
  options.console.out = &out;
  auto tracker = open_tracker(options);
  log_loss(tracker, 1, -std::numeric_limits<double>::quiet_NaN());
  tracker.finish({});
  CHECK(out.str().find("loss nan") != std::string::npos);
  const auto log = read_event_log(event_log_path(dir.path(), 0));
  CHECK_FALSE(std::signbit(log.rows.at(0).values.at(0).second));
}

TEST_CASE("tracker: a failing console is ignored, and reported once at the end") {
  const TemporaryDirectory dir;
  BrokenBuffer buffer;
  std::ostream terminal(&buffer);
  terminal.exceptions(std::ios::badbit);
  auto options = options_for(dir.path());
  options.console.out = &terminal;
  auto tracker = open_tracker(options);
  for (int step = 1; step <= 5; ++step) log_loss(tracker, step, 1);
  const auto report = tracker.finish({.state = RunState::Finished});
  CHECK(report.problem == "console: the terminal is gone");
  CHECK(report.num_dropped == 0);
  CHECK(read_event_log(event_log_path(dir.path(), 0)).rows.size() == 5);
}

TEST_CASE(
    "tracker: an agent that cannot be started is reported at the end, and does not stop training") {
  const TemporaryDirectory dir;
  auto options = options_for(dir.path());
  options.agent_program = dir / "no-such-program";
  auto tracker = open_tracker(options);
  log_loss(tracker, 1, 2.5);
  CHECK(tracker.finish({.state = RunState::Finished}).problem ==
        "tracking agent: cannot start the tracking agent '" + (dir / "no-such-program").string() +
            "': No such file or directory");
  CHECK(read_event_log(event_log_path(dir.path(), 0)).rows.size() == 1);
}

TEST_CASE("tracker: sinks that are not fed are named in a warning") {
  const TemporaryDirectory dir;
  const auto texts_with = [&](const std::string& name, const std::string& tracking) {
    auto options = options_for(dir / name);
    options.tracking = tracking;
    open_tracker(options);
    return read_event_log(event_log_path(dir / name, 0)).texts;
  };
  const auto texts = texts_with("a", "{sinks: [console, csv, tensorboard]}");
  REQUIRE(texts.size() == 1);
  CHECK(texts[0].level == TextLevel::Warning);
  CHECK(
      texts[0].line ==
      "tracking.sinks: not fed during the run, because the program 'lockstep' was not found: csv, "
      "tensorboard; feed them afterwards with: lockstep sync " +
          (dir / "a").string());
  CHECK(texts_with("b", "{sinks: [console]}").empty());
  CHECK(texts_with("c", "{sinks: [csv], agent: false}").empty());
}

TEST_CASE("tracker: dropped records are counted and reported at the end") {
  const TemporaryDirectory dir;
  auto tracker = open_tracker(options_for(dir.path()));
  const std::array<Metric, 1> metrics = {{{"", 1}}};
  tracker.log(1, 0, metrics);
  tracker.log(2, 0, metrics);
  const auto report = tracker.finish({});
  CHECK(report.num_dropped == 2);
  CHECK(
      report.problem ==
      "2 records were not written to the event log: a metric name of 0 bytes; 1 to 512 are valid");
}

TEST_CASE("tracker: bad input is an error on opening, also on ranks that do not log") {
  const TemporaryDirectory dir;
  auto options = options_for(dir.path(), 1);
  options.tracking = "{ranks: [5]}";
  CHECK_THROWS_WITH(open_tracker(options),
                    "tracking.ranks: rank 5 does not exist: the job has 2 (0 to 1)");
  options.tracking = "{rank: all}";
  CHECK_THROWS_WITH(open_tracker(options),
                    Catch::StartsWith("TrackerOptions::tracking:1: tracking.rank: unknown key; did "
                                      "you mean 'ranks'?"));
  const auto tracker = open_tracker(options_for(dir.path()));
  CHECK_THROWS_WITH(open_tracker(options_for(dir.path())),
                    Catch::Contains("is being written by another process"));
}

TEST_CASE("run directory: a directory that cannot be created is one clear Environment error") {
  const TemporaryDirectory dir;
  write_file_durably(dir / "runs", "a file");
  const RunInfo job = {.id = "job-1", .name = "mnist", .job_id = "job-1"};
  try {
    create_run_directory(dir / "runs" / "job-1", job, Json::object());
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Environment);
    CHECK(std::string(error.what()) ==
          "cannot create directory " + (dir / "runs/job-1").string() + ": Not a directory");
  }
}

TEST_CASE("run directory: reopening continues the run, with its start time and without its end") {
  const TemporaryDirectory dir;
  RunInfo job = {.id = "job-1",
                 .name = "mnist",
                 .job_id = "job-1",
                 .world_size = 2,
                 .host = "node1",
                 .created = 1.7e9};
  create_run_directory(dir / "job-1", job, {{"run", {{"seed", 3}}}});
  record_end(dir / "job-1", {.end = {.state = RunState::Failed, .exit_code = 75}});
  job.created += 50;
  create_run_directory(dir / "job-1", job, {{"run", {{"seed", 3}}}});
  const auto read = read_job(dir / "job-1");
  CHECK(read->created == 1.7e9);
  CHECK(read->world_size == 2);
  CHECK(read->host == "node1");
  CHECK_FALSE(read_run_end(dir / "job-1").has_value());
  CHECK(read_config_file(dir / "job-1/config.yaml").find("run")->find("seed")->scalar == "3");
}
