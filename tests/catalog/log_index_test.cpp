#include "catalog/index/log_index.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "catalog/run_catalog.h"
#include "tests/temporary_directory.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/log/event_log_writer.h"

using namespace lockstep;
using namespace lockstep::catalog;

namespace {

constexpr CurveParts kAllParts = {.step = true, .time = true, .epoch = true};

struct IndexedLog {
  TemporaryDirectory directory;
  std::filesystem::path path = directory.path() / "rank-00000.lsev";
  NameTable names;
  ColumnSpool spool{{directory.path()}};
  std::unique_ptr<tracking::EventLogWriter> writer;
  std::unique_ptr<LogIndex> index;

  explicit IndexedLog(uint64_t max_bytes = tracking::kMaxSegmentBytes) {
    writer = std::make_unique<tracking::EventLogWriter>(path, max_bytes);
    writer->identity({.id = "run", .name = "run", .job_id = "run"});
    index = std::make_unique<LogIndex>(LogName{.path = path}, names, &spool);
  }
  void log(int64_t step, double value, const char* name = "train/loss") {
    const Metric metric{name, value};
    writer->scalars({.step = step,
                     .time = 1000.0 + static_cast<double>(step),
                     .epoch = static_cast<double>(step) / 10,
                     .values = {&metric, 1}});
  }
  Curve curve(const char* name = "train/loss") { return index->read(names.find(name), kAllParts); }
};

// As read by the reader of complete logs.
Curve from_log(const std::filesystem::path& path, const std::string& name) {
  Curve curve;
  const auto log = tracking::read_event_log(path);
  for (const auto& row : log.rows)
    for (const auto& [key, value] : row.values)
      if (log.keys[key] == name) {
        curve.step.push_back(static_cast<double>(row.step));
        curve.time.push_back(row.time);
        curve.epoch.push_back(row.epoch);
        curve.value.push_back(value);
      }
  return curve;
}

bool same(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

void check_equal(IndexedLog& log, const char* name) {
  const auto wanted = from_log(log.path, name);
  const auto got = log.curve(name);
  CHECK(same(got.value, wanted.value));
  CHECK(same(got.step, wanted.step));
  CHECK(same(got.time, wanted.time));
  CHECK(same(got.epoch, wanted.epoch));
}

}  // namespace

TEST_CASE("log index: has every value of the log, bit for bit, for any block boundaries") {
  IndexedLog log;
  for (int64_t step = 0; step < 20000; ++step) {
    std::vector<Metric> row = {{"train/loss", std::sin(static_cast<double>(step))}};
    if (step % 7 == 0) row.push_back({"eval/loss", 1.0 / static_cast<double>(step + 1)});
    if (step % 1000 == 3) row.push_back({"train/loss", std::nan("7")});
    if (step > 15000) row.push_back({"late", -std::numeric_limits<double>::infinity()});
    log.writer->scalars(
        {.step = step / 2, .time = 0.1 * static_cast<double>(step), .epoch = 0.5, .values = row});
    if (step % 6000 == 5999) log.index->catch_up();
  }
  CHECK(log.index->catch_up());
  CHECK_FALSE(log.index->catch_up());
  for (const char* name : {"train/loss", "eval/loss", "late"}) check_equal(log, name);
  CHECK(log.curve("nothing").value.empty());
  CHECK(log.spool.size() > 0);
}

TEST_CASE("log index: follows a log that grows, over segments") {
  IndexedLog log(20000);
  for (int64_t step = 0; step < 3000; ++step) {
    log.log(step, static_cast<double>(step));
    if (step % 100 == 0) {
      CHECK(log.index->catch_up());
      CHECK(log.curve().value.size() == static_cast<size_t>(step + 1));
    }
  }
  log.index->catch_up();
  CHECK(std::filesystem::exists(log.directory.path() / "rank-00000.3.lsev"));
  check_equal(log, "train/loss");
  CHECK(log.index->summary().state == RunState::Running);
  log.writer->end({.state = RunState::Finished});
  log.writer->close();
  CHECK(log.index->catch_up());
  CHECK(log.index->summary().state == RunState::Finished);
  check_equal(log, "train/loss");
}

TEST_CASE("log index: after a resume that rewinds, each step is shown once at any time") {
  IndexedLog log;
  for (int64_t step = 0; step < 300; ++step) log.log(step, 1);
  log.index->catch_up();
  CHECK(log.curve().value.size() == 300);
  log.writer->rewind(199);
  log.index->catch_up();
  CHECK(log.curve().value.size() == 200);
  CHECK(log.index->summary().step == 199);
  for (int64_t step = 200; step < 400; ++step) log.log(step, 2);
  log.index->catch_up();
  check_equal(log, "train/loss");
  const auto curve = log.curve();
  CHECK(curve.step.size() == 400);
  CHECK(curve.value[199] == 1);
  CHECK(curve.value[200] == 2);
  CHECK(log.index->summary().metrics[0].count == 400);
  log.writer->rewind(1000);  // removes nothing
  log.log(400, 3);
  log.index->catch_up();
  CHECK(log.curve().value.size() == 401);
}

TEST_CASE("log index: the rank of a killed writer is lost, with all its logged values") {
  IndexedLog log;
  for (int64_t step = 0; step < 10; ++step) log.log(step, 1);
  const auto copy = log.directory.path() / "rank-00001.lsev";
  std::filesystem::copy_file(log.path, copy);  // no writer holds this one
  LogIndex killed({.path = copy, .number = 1}, log.names, &log.spool);
  killed.catch_up();
  CHECK(killed.summary().state == RunState::Lost);
  CHECK(killed.summary().problem.empty());
  CHECK(killed.read(log.names.find("train/loss"), kAllParts).value.size() == 10);

  std::FILE* file = std::fopen(copy.c_str(), "r+");
  std::fseek(file, 16 + 100, SEEK_SET);
  std::fputs("damage", file);
  std::fclose(file);
  LogIndex corrupt({.path = copy, .number = 1}, log.names, &log.spool);
  corrupt.catch_up();
  CHECK_THAT(corrupt.summary().problem, Catch::Contains("corrupt after"));
}

TEST_CASE("log index: a file that is not an event log is a problem, not an error") {
  IndexedLog log;
  const auto path = log.directory.path() / "rank-00002.lsev";
  std::FILE* file = std::fopen(path.c_str(), "w");
  std::fputs("not an event log", file);
  std::fclose(file);
  LogIndex index({.path = path, .number = 2}, log.names, &log.spool);
  index.catch_up();
  CHECK_THAT(index.summary().problem, Catch::Contains("not an event log"));
}

TEST_CASE("log index: records are found by position, in any segment") {
  IndexedLog log(2000);
  for (int64_t step = 0; step < 50; ++step) {
    Histogram histogram;
    histogram.at.name = "weights";
    histogram.at.step = step;
    histogram.at.time = 5;
    histogram.edges = {0, 1};
    histogram.counts = {static_cast<double>(step)};
    log.writer->histogram(histogram);
    log.log(step, 1);
    log.writer->text({.time = 1, .line = "line " + std::to_string(step)});
  }
  log.index->catch_up();
  REQUIRE(log.index->places().size() == 100);
  for (const auto& place : log.index->places()) {
    const auto record = log.index->read_record(place);
    REQUIRE(record);
    if (place.kind == RecordPlace::Kind::Histogram)
      CHECK(std::get<Histogram>(*record).counts[0] == static_cast<double>(place.step));
    else
      CHECK(std::get<TextLine>(*record).line.starts_with("line "));
  }
  auto beyond = log.index->places().back();
  beyond.end += 5;
  CHECK_FALSE(log.index->read_record(beyond));
}

TEST_CASE("log index: a replaced log is read again") {
  IndexedLog log;
  log.log(1, 1);
  log.index->catch_up();
  log.writer->close();
  std::filesystem::remove(log.path);
  tracking::EventLogWriter other(log.path);
  other.identity({.id = "other", .job_id = "run"});
  const Metric metric{"train/other", 2};
  other.scalars({.step = 5, .values = {&metric, 1}});
  CHECK(log.index->catch_up());
  CHECK(log.curve().value.empty());
  CHECK(log.curve("train/other").value == std::vector<double>{2});
  CHECK(log.index->summary().info.id == "other");
}

TEST_CASE("index: the extremes of a metric that is NaN throughout are NaN") {
  IndexedLog log;
  for (int64_t step = 0; step < 3; ++step) {
    log.log(step, std::nan(""), "train/loss");
    log.log(step, step == 0 ? std::nan("") : static_cast<double>(step), "train/late");
  }
  REQUIRE(log.index->catch_up());
  const auto& metrics = log.index->summary().metrics;
  REQUIRE(metrics.size() == 2);
  CHECK(std::isnan(metrics[0].min));
  CHECK(std::isnan(metrics[0].max));
  CHECK(std::isnan(metrics[0].mean()));
  CHECK(metrics[1].min == 1);
  CHECK(metrics[1].max == 2);
}
