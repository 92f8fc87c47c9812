// Tails of event logs that continue in further segments.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "tests/temporary_directory.h"
#include "tests/tracking/segmented_log.h"
#include "tracking/log/event_log_reader.h"

using namespace lockstep;
using namespace lockstep::tracking;

TEST_CASE("log tail rotation: a tail that keeps up gets every record immediately and once") {
  const TemporaryDirectory dir;
  const auto path = dir / "log";
  LogTail tail(path);
  EventLogWriter log(path, kSmall);
  log.identity(sample_info());
  CHECK(rest_of(tail) == std::vector<std::string>{"process 42"});
  log.config({{"lr", 0.1}});
  CHECK(rest_of(tail) == std::vector<std::string>{"config {\"lr\":0.1}"});
  for (int step = 1; step <= 200; ++step) {
    const auto name = "m/" + std::to_string(step / 50);
    const std::array<Metric, 1> values = {{{name, 1}}};
    log.scalars({.step = step, .time = 1.7e9, .epoch = 0, .values = values});
    const auto seen = rest_of(tail);
    const bool is_new = step == 1 || step % 50 == 0;
    REQUIRE(seen.size() == (is_new ? 2 : 1));
    REQUIRE(seen.back() == row_line(name, step, 1));
  }
  CHECK(last_segment(path) > 8);
  CHECK(tail.keys() == std::vector<std::string>{"m/0", "m/1", "m/2", "m/3", "m/4"});
  CHECK(tail.identity()->pid == 42);
  log.close();
  CHECK(tail.backlog() == 0);
}

TEST_CASE("log tail rotation: a tail that lags behind misses no record") {
  for (const int lag : {2, 3, 5, 13, 40, 150}) {
    const TemporaryDirectory dir;
    EventLogWriter log(dir / "log", kSmall);
    LogTail tail(dir / "log");
    std::vector<std::string> expected, seen;
    for (int step = 1; step <= 300; ++step) {
      log_loss(log, step, 1);
      if (step == 1) expected.push_back("key train/loss");
      expected.push_back(row_line("train/loss", step, 1));
      if (step % lag) continue;
      // Also stops in the middle of the written records.
      for (int i = 0; i < lag - 1; ++i)
        if (const auto record = tail.next()) std::visit(RecordLines{seen, tail.keys()}, *record);
    }
    const auto rest = rest_of(tail);
    seen.insert(seen.end(), rest.begin(), rest.end());
    CHECK(seen == expected);
  }
}

TEST_CASE("log tail rotation: a tail restarts after any record, also while the log grows") {
  const TemporaryDirectory dir;
  const auto path = dir / "log";
  std::vector<std::string> expected;
  EventLogWriter log(path, kSmall);
  write_process(log, 1, 1, 60, expected);
  struct Place {
    uint64_t offset;
    size_t num_seen;
  };
  std::vector<Place> places = {{0, 0}};
  LogTail tail(path);
  const auto go_through = [&] {
    while (tail.next()) places.push_back({tail.offset(), places.back().num_seen + 1});
    places.push_back({tail.offset(), places.back().num_seen});  // as of the end, seen so far
  };
  go_through();
  write_process(log, 2, 61, 130, expected);
  go_through();
  log.close();
  CHECK(last_segment(path) > 5);
  CHECK(places.back().num_seen == expected.size());
  for (const auto& place : places) {
    LogTail again(path, place.offset);
    INFO("offset " << place.offset);
    const std::vector<std::string> rest(
        expected.begin() + static_cast<std::ptrdiff_t>(place.num_seen), expected.end());
    REQUIRE(rest_of(again) == rest);
    REQUIRE(again.offset() == tail.offset());
    REQUIRE(again.keys() == tail.keys());
    REQUIRE(again.identity()->pid == 2);
    REQUIRE(again.config()["pid"] == 2);
  }
}

TEST_CASE("log tail rotation: the backlog covers all segments") {
  const TemporaryDirectory dir;
  const auto path = dir / "log";
  EventLogWriter log(path, kSmall);
  LogTail tail(path);
  log_loss(log, 1, 1);
  while (tail.next()) continue;
  for (int step = 2; step <= 100; ++step) log_loss(log, step, 1);
  log.close();
  constexpr uint64_t kRowBytes = 8 + 1 + 24 + 12;
  auto left = tail.backlog();
  CHECK(left == 99 * kRowBytes);
  for (; tail.next(); left -= kRowBytes) REQUIRE(tail.backlog() == left - kRowBytes);
  CHECK(tail.backlog() == 0);
}

TEST_CASE("log tail rotation: readers next to a writer with many small segments") {
  const TemporaryDirectory dir;
  constexpr int64_t kSteps = 20'000;
  std::atomic<bool> is_done = false;
  std::jthread writer([&] {
    EventLogWriter log(dir / "log", 4 * kSmall);
    for (int64_t step = 1; step <= kSteps; ++step) log_loss(log, step, 1);
    is_done = true;
  });
  LogTail tail(dir / "log");
  int64_t seen = 0;
  size_t num_bad = 0, num_reads = 0;
  for (bool last_turn = false; !last_turn;) {
    last_turn = is_done;
    while (const auto record = tail.next())
      if (const auto* row = std::get_if<LoggedRow>(&*record)) num_bad += row->step != ++seen;
    if (num_reads++ % 16) continue;
    LogTail again(dir / "log", tail.offset());
    const auto from = seen;
    if (const auto record = again.next())
      if (const auto* row = std::get_if<LoggedRow>(&*record)) num_bad += row->step != from + 1;
    if (!std::filesystem::exists(dir / "log")) continue;
    int64_t read = 0;
    for (const auto& row : read_event_log(dir / "log").rows) num_bad += row.step != ++read;
    num_bad += read < seen;
  }
  CHECK(seen == kSteps);
  CHECK(num_bad == 0);
  CHECK(last_segment(dir / "log") > 200);
}
