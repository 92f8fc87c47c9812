#include "tracking/agent/sink_thread.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <mutex>

#include "tests/temporary_directory.h"
#include "tests/tracking/agent/recorder_sink.h"
#include "tests/tracking/sample_log.h"
#include "tracking/http/retry_later.h"
#include "tracking/runs/run_directory.h"

using namespace lockstep;
using namespace lockstep::tracking;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

const RunEnd kFinishedRun = {.state = RunState::Finished};

// The times of the flushes of all recorder sinks; the first one fails with a pause.
struct BusyServer {
  explicit BusyServer(std::chrono::seconds pause) {
    Recorder::shared().reset();
    Recorder::shared().flush_with([this, pause] {
      const std::lock_guard lock(mutex);
      times.push_back(Clock::now());
      if (times.size() == 1) throw RetryLater("busy", pause);
    });
  }
  ~BusyServer() { Recorder::shared().reset(); }

  std::mutex mutex;
  std::vector<Clock::time_point> times;
};

EntryPlan finished_entry(const std::filesystem::path& run, int rank) {
  const auto id = "job-rank-" + std::to_string(rank);
  EventLogWriter log(event_log_path(run, rank));
  log.identity(sample_info(id, rank, 2));
  log.config({{"lr", 0.1}});
  log.end(kFinishedRun);
  return {.run_dir = run, .id = id, .log = event_log_path(run, rank)};
}

// SinkThread has no event for its status, which is polled.
template <class Condition>
void wait_until(const Condition& condition) {
  for (const auto end = Clock::now() + 60s; Clock::now() < end && !condition();)
    std::this_thread::sleep_for(10ms);
  REQUIRE(condition());
}

}  // namespace

TEST_CASE("sink thread: a pause that the server requests applies to all entries") {
  constexpr auto kPause = 2s;  // longer than the agent waits otherwise
  const TemporaryDirectory dir;
  const auto run = dir / "job";
  std::filesystem::create_directories(run / "events");
  BusyServer server(kPause);
  {
    SinkThread thread(Feed::SinkPart(sink_registry(), "recorder"),
                      [](const std::string&) { return std::nullopt; });
    for (int rank = 0; rank < 2; ++rank) {
      const auto plan = finished_entry(run, rank);
      thread.add(plan);
      thread.set_end(plan.id, kFinishedRun);
    }
    wait_until([&] { return thread.status().complete; });
  }
  REQUIRE(server.times.size() >= 3);
  for (size_t i = 1; i < server.times.size(); ++i)
    CHECK(server.times[i] - server.times[0] >= kPause);
}

TEST_CASE("sink thread: a file without permission is retried only while the run continues") {
  const TemporaryDirectory dir;
  const auto run = dir / "job";
  std::filesystem::create_directories(run / "events");
  Recorder::shared().reset();
  std::atomic<int> num_tries = 0;
  Recorder::shared().flush_with([&] {
    ++num_tries;
    errno = EACCES;
    throw errno_error("cannot open x.csv");
  });
  {
    SinkThread thread(Feed::SinkPart(sink_registry(), "recorder"),
                      [](const std::string&) { return std::nullopt; });
    const auto plan = finished_entry(run, 0);
    thread.add(plan);
    wait_until([&] { return num_tries == 2; });
    CHECK_FALSE(thread.status().gave_up);
    thread.set_end(plan.id, kFinishedRun);
    wait_until([&] { return thread.status().gave_up; });
    CHECK_FALSE(thread.status().complete);
    CHECK(thread.status().problem == "cannot open x.csv: Permission denied");
  }
  Recorder::shared().reset();
}

TEST_CASE("sink thread: anything that a sink throws is its problem") {
  const TemporaryDirectory dir;
  const auto run = dir / "job";
  std::filesystem::create_directories(run / "events");
  Recorder::shared().reset();
  Recorder::shared().flush_with([] { throw 42; });
  {
    SinkThread thread(Feed::SinkPart(sink_registry(), "recorder"),
                      [](const std::string&) { return std::nullopt; });
    const auto plan = finished_entry(run, 0);
    thread.add(plan);
    thread.set_end(plan.id, kFinishedRun);
    wait_until([&] { return thread.status().problem == "an exception of an unknown type"; });
  }
  Recorder::shared().reset();
}

TEST_CASE("retry later: the pause is at most ten minutes") {
  const auto pause = [](const std::string& text) {
    return pause_of({.status = 503, .headers = {{"retry-after", text}}, .body = ""});
  };
  CHECK(pause_of({.status = 503, .headers = {}, .body = ""}) == 0s);
  CHECK(pause("") == 0s);
  CHECK(pause("7") == 7s);
  CHECK(pause("600") == 600s);
  CHECK(pause("601") == 600s);
  CHECK(pause("99999999999999999999") == 0s);
  CHECK(pause("-5") == 0s);
  CHECK(pause("soon") == 0s);
  CHECK(pause("Wed, 25 Nov 2099 22:00:00 GMT") == 600s);
  CHECK(pause("Wed, 25 Nov 2020 22:00:00 GMT") == 0s);
}
