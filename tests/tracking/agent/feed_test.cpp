#include "tracking/agent/feed.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/temporary_directory.h"
#include "tests/tracking/agent/recorder_sink.h"
#include "tests/tracking/sample_log.h"
#include "tracking/runs/run_directory.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace lockstep::tracking {
REGISTER_SINK("recorder", RecorderSink, "stores records in memory, for tests");
}

namespace {

const RunEnd kFinished = {.state = RunState::Finished};

// A run directory with the open log of one rank, and feeds of the recorder sink.
struct OneRank {
  OneRank() {
    Recorder::shared().reset();
    std::filesystem::create_directories(run / "events");
    log.emplace(event_log_path(run, 0));
    log->identity(sample_info("job"));
    log->config({{"lr", 0.1}});
  }

  std::unique_ptr<Feed> feed(std::vector<std::filesystem::path> others = {},
                             const std::string& place = "") const {
    Feed::SinkPart sink(sink_registry(), "recorder");
    if (!place.empty())
      sink.read(parse_config("{name: recorder, place: " + place + "}", "test"), "");
    return std::make_unique<Feed>(
        sink,
        EntryPlan{.run_dir = run, .id = "job", .log = event_log_path(run, 0), .others = others},
        [](const std::string&) { return std::nullopt; });
  }

  static std::vector<std::string> delivered() { return Recorder::shared().entry("job").delivered; }

  TemporaryDirectory dir;
  std::filesystem::path run = dir / "job";
  std::optional<EventLogWriter> log;
};

// Bytes read by this process, from any file.
int64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string name;
  int64_t bytes = 0;
  file >> name >> bytes;
  if (name != "rchar:") throw std::runtime_error("unexpected format of /proc/self/io");
  return bytes;
}

std::string loss(int64_t step) { return std::to_string(step) + " train/loss 1.000000"; }

std::vector<std::string> losses(int64_t first, int64_t last) {
  std::vector<std::string> texts;
  for (auto step = first; step <= last; ++step) texts.push_back(loss(step));
  return texts;
}

}  // namespace

TEST_CASE("feed: delivers the records and the end of a run exactly once") {
  OneRank rank;
  for (int step = 1; step <= 3; ++step) log_loss(*rank.log, step, 1);
  auto feed = rank.feed();
  CHECK(feed->pump(std::nullopt) == FeedState::Waiting);
  log_loss(*rank.log, 4, 1);
  rank.log->end(kFinished);
  rank.log->close();
  CHECK(feed->pump(kFinished) == FeedState::Done);
  CHECK(rank.delivered() == losses(1, 4));
  CHECK(Recorder::shared().entry("job").num_ends == 1);

  feed = nullptr;
  feed = rank.feed();
  CHECK(feed->pump(kFinished) == FeedState::Done);
  CHECK(rank.delivered() == losses(1, 4));
  CHECK(Recorder::shared().entry("job").num_starts == 1);
}

TEST_CASE("feed: a new feed does not deliver the end of a finished run again") {
  OneRank rank;
  log_loss(*rank.log, 1, 1);
  rank.feed()->pump(kFinished);
  auto feed = rank.feed();
  CHECK(feed->pump(std::nullopt) == FeedState::Waiting);
  CHECK(feed->pump(kFinished) == FeedState::Done);
  CHECK(Recorder::shared().entry("job").num_starts == 1);
  CHECK(Recorder::shared().entry("job").num_ends == 1);

  log_loss(*rank.log, 2, 1);  // it was continued
  CHECK(feed->pump(std::nullopt) == FeedState::Waiting);
  CHECK(feed->pump(kFinished) == FeedState::Done);
  CHECK(rank.delivered() == losses(1, 2));
  CHECK(Recorder::shared().entry("job").num_ends == 2);
}

TEST_CASE("feed: a sink that fails at any record still receives each record once") {
  OneRank rank;
  for (int step = 1; step <= 20; ++step) log_loss(*rank.log, step, 1);
  auto feed = rank.feed();
  for (int fails_at = 1; fails_at <= 20; ++fails_at) {
    Recorder::shared().on_row = [&](int64_t step) {
      if (step == fails_at) throw environment_error("the server is gone");
    };
    CHECK_THROWS_WITH(feed->pump(std::nullopt), "the server is gone");
  }
  Recorder::shared().on_row = nullptr;
  CHECK(feed->pump(kFinished) == FeedState::Done);
  CHECK(rank.delivered() == losses(1, 20));
}

TEST_CASE("feed: a feed that dies after any flush loses and duplicates nothing") {
  OneRank rank;
  for (int step = 1; step <= 30; ++step) {
    log_loss(*rank.log, step, 1);
    auto feed = rank.feed();  // a new process
    if (step % 3 == 0)
      feed->pump(kFinished);  // flushes
    else
      feed->pump(std::nullopt);  // reads, and dies before the flush
  }
  rank.feed()->pump(kFinished);
  CHECK(rank.delivered() == losses(1, 30));
}

TEST_CASE("feed: a second feed of the same entry waits") {
  OneRank rank;
  log_loss(*rank.log, 1, 1);
  auto first = rank.feed(), second = rank.feed();
  first->pump(std::nullopt);
  CHECK(second->pump(kFinished) == FeedState::Waiting);
  first = nullptr;
  CHECK(second->pump(kFinished) == FeedState::Done);
  CHECK(rank.delivered() == losses(1, 1));
}

TEST_CASE("feed: a resumed run creates a new sink object with the state of the old one") {
  OneRank rank;
  for (int step = 1; step <= 3; ++step) log_loss(*rank.log, step, 1);
  auto feed = rank.feed();
  feed->pump(std::nullopt);
  feed->pump(kFinished);
  rank.log->close();
  rank.log.emplace(event_log_path(rank.run, 0));
  rank.log->identity(sample_info("job"));
  rank.log->config({{"lr", 0.1}});
  rank.log->rewind(2);
  log_loss(*rank.log, 3, 1);
  CHECK(feed->pump(kFinished) == FeedState::More);  // the new process gets a new sink object
  CHECK(feed->pump(kFinished) == FeedState::Done);
  const auto entry = Recorder::shared().entry("job");
  CHECK(entry.num_starts == 2);
  CHECK(entry.num_ends == 2);
  CHECK(entry.delivered ==
        std::vector<std::string>{loss(1), loss(2), loss(3), "rewind 2", loss(3)});
}

TEST_CASE("feed: a resumed run that is delivered late has each step once") {
  OneRank rank;
  for (int step = 1; step <= 5; ++step) log_loss(*rank.log, step, 2);
  rank.log->rewind(2);
  for (int step = 3; step <= 4; ++step) log_loss(*rank.log, step, 1);
  rank.feed()->pump(kFinished);
  CHECK(rank.delivered() == std::vector<std::string>{"1 train/loss 2.000000",
                                                     "2 train/loss 2.000000", "rewind 2", loss(3),
                                                     loss(4)});
}

TEST_CASE("feed: system metrics of other nodes are labeled with the node") {
  OneRank rank;
  for (const int node : {0, 1}) {
    EventLogWriter log(node_log_path(rank.run, node));
    auto info = sample_info("node");
    info.node_rank = node;
    log.identity(info);
    const std::array<Metric, 1> values = {{{"system/cpu_percent", 50.0}}};
    log.scalars({.step = 0, .time = 1, .values = values});
  }
  rank.feed({node_log_path(rank.run, 0), node_log_path(rank.run, 1)})->pump(kFinished);
  CHECK(rank.delivered() == std::vector<std::string>{"0 system/cpu_percent 50.000000",
                                                     "0 system/node-1/cpu_percent 50.000000"});
}

TEST_CASE("feed: in a shared run every metric is labeled with its rank") {
  OneRank rank;
  log_loss(*rank.log, 1, 1);
  {
    EventLogWriter other(event_log_path(rank.run, 3));
    auto info = sample_info("job-rank-3", 3, 4);
    other.identity(info);
    other.config({});
    log_loss(other, 1, 1);
  }
  Feed feed(Feed::SinkPart(sink_registry(), "recorder"),
            EntryPlan{.run_dir = rank.run,
                      .id = "job",
                      .log = event_log_path(rank.run, 0),
                      .others = {event_log_path(rank.run, 3)},
                      .labels = true},
            [](const std::string&) { return std::nullopt; });
  CHECK(feed.pump(kFinished) == FeedState::Done);
  CHECK(rank.delivered() ==
        std::vector<std::string>{"1 train/loss/rank-0 1.000000", "1 train/loss/rank-3 1.000000"});
}

TEST_CASE(
    "feed: what a resumed run discards is removed before later values of other ranks arrive") {
  OneRank rank;
  const auto log_twice = [](EventLogWriter& log, const RunInfo& info) {
    log_loss(log, 1, 1);
    log_loss(log, 2, 1);
    log.identity(info);  // resumed
    log.config({{"lr", 0.1}});
    log.rewind(1);
    log_loss(log, 2, 1);
  };
  log_twice(*rank.log, sample_info("job"));
  {
    EventLogWriter other(event_log_path(rank.run, 1));
    other.identity(sample_info("job-rank-1", 1, 2));
    other.config({});
    log_twice(other, sample_info("job-rank-1", 1, 2));
  }
  Feed feed(Feed::SinkPart(sink_registry(), "recorder"),
            EntryPlan{.run_dir = rank.run,
                      .id = "job",
                      .log = event_log_path(rank.run, 0),
                      .others = {event_log_path(rank.run, 1)},
                      .labels = true},
            [](const std::string&) { return std::nullopt; });
  while (feed.pump(kFinished) == FeedState::More) continue;
  const auto delivered = rank.delivered();
  const auto other = std::ranges::find(delivered, "2 train/loss/rank-1 1.000000");
  REQUIRE(other != delivered.end());
  CHECK(std::ranges::find(delivered, "rewind 1") < other);
}

TEST_CASE("feed: does not read the log again while a sink fails or nothing is new") {
  OneRank rank;
  for (int step = 1; step <= 50'000; ++step) log_loss(*rank.log, step, 1);
  auto feed = rank.feed();
  while (feed->pump(std::nullopt) == FeedState::More) continue;
  feed->pump(kFinished);
  REQUIRE(rank.delivered().size() == 50'000);
  log_loss(*rank.log, 50'001, 1);
  Recorder::shared().on_flush = [] { throw environment_error("the server is gone"); };
  const auto before = bytes_read();
  for (int i = 0; i < 20; ++i) CHECK_THROWS(feed->pump(kFinished));
  CHECK(bytes_read() - before < 2'000'000);  // less than one pass over the log
  Recorder::shared().on_flush = nullptr;
  CHECK(feed->pump(kFinished) == FeedState::Done);
  CHECK(rank.delivered() == losses(1, 50'001));
  const auto when_idle = bytes_read();
  for (int i = 0; i < 1000; ++i) CHECK(feed->pump(std::nullopt) == FeedState::Waiting);
  CHECK(bytes_read() - when_idle < 100'000);
}

TEST_CASE("feed: positions of destinations are independent") {
  OneRank rank;
  for (int step = 1; step <= 3; ++step) log_loss(*rank.log, step, 1);
  const auto send = [&](const std::string& place) {
    CHECK(rank.feed({}, place)->pump(kFinished) == FeedState::Done);
    return Recorder::shared().entry(place.empty() ? "job" : "job at " + place);
  };
  for (const std::string place : {"", "a", "b", "", "a", "b"}) {
    INFO("place '" << place << "'");
    const auto entry = send(place);
    CHECK(entry.delivered == losses(1, 3));
    CHECK(entry.num_starts == 1);
    CHECK(entry.num_ends == 1);
  }
  log_loss(*rank.log, 4, 1);
  CHECK(send("b").delivered == losses(1, 4));
  CHECK(Recorder::shared().entry("job at a").delivered == losses(1, 3));
}

TEST_CASE("feed: delivers records again if the sink has lost them") {
  OneRank rank;
  for (int step = 1; step <= 3; ++step) log_loss(*rank.log, step, 1);
  rank.feed()->pump(kFinished);
  Recorder::shared().entries["job"] = {.is_deleted = true};
  CHECK(rank.feed()->pump(kFinished) == FeedState::Done);
  CHECK(rank.delivered() == losses(1, 3));
}

TEST_CASE("feed: reports a corrupt position file and how to fix it") {
  OneRank rank;
  rank.feed()->pump(kFinished);
  write_file_durably(rank.run / "sinks/recorder/job/position.json", "{\"positions\": 3");
  CHECK_THROWS_WITH(rank.feed()->pump(kFinished),
                    Catch::Contains("position.json is corrupt: remove"));
}

TEST_CASE("feed: a log of many segments is one run to its sink, also for a new feed") {
  OneRank rank;
  int step = 0;
  for (int process = 1; process <= 3; ++process) {
    rank.log.reset();
    rank.log.emplace(event_log_path(rank.run, 0), 700);
    rank.log->identity(sample_info("job"));
    rank.log->config({{"lr", 0.1}});
    for (const int last = step + 40; step < last;) {
      log_loss(*rank.log, ++step, 1);
      if (step % 7 == 0) rank.feed()->pump(kFinished);  // a new feed, which flushes
    }
  }
  CHECK(std::filesystem::exists(rank.run / "events/rank-00000.9.lsev"));
  auto feed = rank.feed();
  while (feed->pump(kFinished) != FeedState::Done) continue;
  CHECK(rank.delivered() == losses(1, 120));
  const auto num_starts = Recorder::shared().entry("job").num_starts;
  rank.log->text({.line = std::string(1000, 'x')});  // has its own segment
  CHECK(feed->pump(kFinished) == FeedState::Done);
  CHECK(Recorder::shared().entry("job").num_starts == num_starts);
}
