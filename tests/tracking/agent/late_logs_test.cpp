// Logs of other nodes that appear after the agent has begun to feed its sinks.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <future>

#include "lockstep/tracker.h"
#include "tests/temporary_directory.h"
#include "tests/tracking/agent/recorder_sink.h"
#include "tests/tracking/sample_log.h"
#include "tracking/agent/agent.h"
#include "tracking/runs/run_directory.h"

using namespace lockstep;
using namespace lockstep::tracking;
using namespace std::chrono_literals;

namespace {

void begin_log(EventLogWriter& log, int rank, const std::string& id) {
  auto info = sample_info(id, rank, 2);
  info.job_id = "job";
  info.node_rank = rank;
  log.identity(info);
  log.config({{"lr", 0.1}});
  log_loss(log, 1, rank);
}

bool is_delivered(const std::string& start) {
  return std::ranges::any_of(Recorder::shared().entry("job").delivered,
                             [&](const auto& text) { return text.starts_with(start); });
}

}  // namespace

TEST_CASE("agent: an entry of several nodes gets the logs that appear on another one later") {
  const bool is_shared = GENERATE(true, false);
  const TemporaryDirectory dir;
  const auto run = dir / "job";
  Recorder::shared().reset();
  create_run_directory(run, sample_info("job", 0, 2), Json::object());
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  AgentOptions options{.run_dir = run,
                       .expected_logs = 1,
                       .parent_fd = ends[0],
                       .environment = [](const std::string&) { return std::nullopt; }};
  options.config.sinks = SinkList(sink_registry(), {"console", "recorder"});
  options.config.shared = is_shared;
  if (is_shared) options.config.ranks = {.kind = RankSelection::Kind::All};
  options.config.system_nodes = SystemNodes::All;
  EventLogWriter log(event_log_path(run, 0));
  begin_log(log, 0, is_shared ? "job-rank-0" : "job");
  auto agent = std::async(std::launch::async, [&] { return run_agent(options); });
  for (int i = 0; i < 6000 && !is_delivered("1 train/loss"); ++i) ::poll(nullptr, 0, 10);
  REQUIRE(is_delivered("1 train/loss"));

  EventLogWriter late(is_shared ? event_log_path(run, 1) : node_log_path(run, 1));
  begin_log(late, 1, is_shared ? "job-rank-1" : "job-node-1");
  const std::array<Metric, 1> values = {{{"system/cpu_percent", 12.0}}};
  late.scalars({.step = 1, .time = 1.7e9, .values = values});
  for (auto* writer : {&late, &log}) {
    writer->end({.state = RunState::Finished});
    writer->close();
  }
  ::close(ends[1]);
  REQUIRE(agent.wait_for(60s) == std::future_status::ready);
  CHECK(agent.get().complete);
  if (is_shared) CHECK(is_delivered("1 train/loss/rank-1 1.0"));
  CHECK(is_delivered("1 system/node-1/cpu_percent 12.0"));
  ::close(ends[0]);
}
