#include "tracking/agent/agent.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <future>

#include "catalog/run_list.h"
#include "lockstep/tracker.h"
#include "tests/temporary_directory.h"
#include "tests/tracking/agent/recorder_sink.h"
#include "tests/tracking/sample_log.h"
#include "tracking/agent/agent_lock.h"
#include "tracking/agent/agent_status.h"
#include "tracking/agent/sync.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/log/unix_time.h"
#include "tracking/runs/end_facts.h"
#include "tracking/runs/run_directory.h"

using namespace lockstep;
using namespace lockstep::tracking;
using namespace std::chrono_literals;

namespace {

TrackingConfig recorder_config() {
  TrackingConfig config;
  config.sinks = SinkList(sink_registry(), {"console", "recorder"});
  config.ranks = {.kind = RankSelection::Kind::All};
  config.upload_timeout = {60s};
  return config;
}

AgentOptions options_for(const std::filesystem::path& run, int expected_logs, int parent_fd = -1) {
  return {.run_dir = run,
          .expected_logs = expected_logs,
          .parent_fd = parent_fd,
          .config = recorder_config(),
          .environment = [](const std::string&) { return std::nullopt; }};
}

// Returns the id of a process that has exited.
int64_t exited_process() {
  const auto pid = ::fork();
  if (pid == 0) ::_exit(0);
  ::waitpid(pid, nullptr, 0);
  return pid;
}

// Creates a job of several ranks with closed logs, finished or without an end.
std::filesystem::path make_job(const TemporaryDirectory& dir, int world_size, bool finished = true,
                               const std::string& id = "job") {
  Recorder::shared().reset();
  const auto run = dir / id;
  create_run_directory(run, sample_info(id, 0, world_size), Json::object());
  for (int rank = 0; rank < world_size; ++rank) {
    EventLogWriter log(event_log_path(run, rank));
    auto info = sample_info(id + "-rank-" + std::to_string(rank), rank, world_size);
    info.job_id = id;
    log.identity(info);
    log.config({{"lr", 0.1}});
    log_loss(log, 1, rank);
    if (finished) log.end({.state = RunState::Finished});
  }
  return run;
}

}  // namespace

TEST_CASE("agent: delivers every entry of a finished job, with its end and the node's metrics") {
  const TemporaryDirectory dir;
  const auto run = make_job(dir, 3);
  const auto report = run_agent(options_for(run, 3));
  CHECK(report.complete);
  for (int rank = 0; rank < 3; ++rank) {
    const auto entry = Recorder::shared().entry("job-rank-" + std::to_string(rank));
    CHECK(entry.num_ends == 1);
    CHECK(entry.end.state == RunState::Finished);
    CHECK(entry.delivered.at(0) == "1 train/loss " + std::to_string(double(rank)));
    const bool has_system = std::ranges::any_of(entry.delivered, [](const auto& text) {
      return text.find(" system/") != std::string::npos;
    });
    CHECK(has_system == (rank == 0));
  }
  CHECK(read_sink_status(run, 0).at(0).complete);
}

TEST_CASE("agent: an agent that takes over does not repeat alerts") {
  const TemporaryDirectory dir;
  const auto run = make_job(dir, 1, true, "nan");
  for (int agent = 0; agent < 3; ++agent) {
    {
      EventLogWriter log(event_log_path(run, 0));
      const std::array<Metric, 1> values = {{{"train/loss", std::nan("")}}};
      log.scalars({.step = 2, .time = unix_now(), .values = values});
      log.end({.state = RunState::Finished});
    }
    CHECK(run_agent(options_for(run, 1)).complete);
  }
  CHECK(read_event_log(node_log_path(run, 0)).alerts.size() == 1);
}

TEST_CASE("agent: only the node whose process wrote a row raises alerts for it") {
  const TemporaryDirectory dir;
  const auto run = make_job(dir, 1);
  std::vector<int> ends(4);
  REQUIRE(::pipe2(&ends[0], O_CLOEXEC) == 0);
  REQUIRE(::pipe2(&ends[2], O_CLOEXEC) == 0);
  std::optional<EventLogWriter> log(std::in_place, event_log_path(run, 0));
  std::vector<std::future<AgentReport>> agents;
  for (int node = 0; node < 2; ++node) {
    auto options = options_for(run, node == 0 ? 1 : 0, ends[static_cast<size_t>(2 * node)]);
    options.node_rank = node;
    options.config.ranks = {};
    options.forwarding.may_move = true;
    agents.push_back(std::async(std::launch::async, [options] { return run_agent(options); }));
  }
  const auto alerts_of = [&](int node) {
    const auto path = node_log_path(run, node);
    return std::filesystem::exists(path) ? read_event_log(path).alerts.size() : 0;
  };
  const auto wait_for_alert = [&](int node) {
    for (int i = 0; i < 6000 && alerts_of(node) == 0; ++i) ::poll(nullptr, 0, 10);
    return alerts_of(node);
  };
  const auto log_nan = [&](const std::string& metric) {
    const std::array<Metric, 1> values = {{{metric, std::nan("")}}};
    log->scalars({.step = 2, .time = unix_now(), .values = values});
  };
  log_nan("train/loss");
  CHECK(wait_for_alert(0) == 1);
  auto info = sample_info("job-rank-0");
  info.job_id = "job";
  info.node_rank = 1;
  log->identity(info);
  log->config({});
  log_nan("eval/loss");
  CHECK(wait_for_alert(1) == 1);
  log->end({.state = RunState::Finished});
  log->close();
  for (const int end : {ends[1], ends[3]}) ::close(end);
  for (auto& agent : agents) {
    REQUIRE(agent.wait_for(60s) == std::future_status::ready);
    agent.get();
  }
  CHECK(alerts_of(0) == 1);
  CHECK(alerts_of(1) == 1);
  for (const int end : {ends[0], ends[2]}) ::close(end);
}

TEST_CASE("agent: checks what is logged after the clock was set back") {
  const TemporaryDirectory dir;
  const auto run = make_job(dir, 1, false);
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  std::optional<EventLogWriter> log(std::in_place, event_log_path(run, 0));
  auto agent =
      std::async(std::launch::async, [&] { return run_agent(options_for(run, 1, ends[0])); });
  const auto log_nan = [&](const std::string& metric, double time) {
    const std::array<Metric, 1> values = {{{metric, std::nan("")}}};
    log->scalars({.step = 2, .time = time, .values = values});
  };
  const auto num_alerts = [&] {
    const auto path = node_log_path(run, 0);
    return std::filesystem::exists(path) ? read_event_log(path).alerts.size() : 0;
  };
  log_nan("train/loss", unix_now());
  for (int i = 0; i < 6000 && num_alerts() == 0; ++i) ::poll(nullptr, 0, 10);
  REQUIRE(num_alerts() == 1);  // it has read the log
  log_nan("eval/loss", unix_now() - 3600);
  log->end({.state = RunState::Finished});
  log->close();
  ::close(ends[1]);
  REQUIRE(agent.wait_for(60s) == std::future_status::ready);
  agent.get();
  CHECK(num_alerts() == 2);
  ::close(ends[0]);
}

TEST_CASE("agent: waits for its parent, and for the logs to be closed") {
  const TemporaryDirectory dir;
  const auto run = make_job(dir, 1);
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  std::optional<EventLogWriter> log(std::in_place, event_log_path(run, 0));
  auto info = sample_info("job-rank-0");
  info.job_id = "job";
  log->identity(info);
  log->config({});
  auto agent =
      std::async(std::launch::async, [&] { return run_agent(options_for(run, 1, ends[0])); });
  log_loss(*log, 2, 7);
  CHECK(agent.wait_for(500ms) == std::future_status::timeout);
  ::close(ends[1]);
  CHECK(agent.wait_for(500ms) == std::future_status::timeout);  // the log still has a writer
  log_loss(*log, 3, 8);
  log->end({.state = RunState::Finished});
  log->close();
  REQUIRE(agent.wait_for(60s) == std::future_status::ready);
  CHECK(agent.get().complete);
  const auto delivered = Recorder::shared().entry("job-rank-0").delivered;
  CHECK(std::ranges::count(delivered, "2 train/loss 7.000000") == 1);
  CHECK(std::ranges::count(delivered, "3 train/loss 8.000000") == 1);
  ::close(ends[0]);
}

TEST_CASE("agent: delivers a log that a rank of its node continues") {
  const TemporaryDirectory dir;
  const auto run = make_job(dir, 1, false);  // written by node 0, which is lost
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  std::optional<EventLogWriter> log(std::in_place, event_log_path(run, 0));
  auto options = options_for(run, 0, ends[0]);
  options.node_rank = 1;
  options.config.ranks = {};
  options.forwarding.may_move = true;
  auto agent = std::async(std::launch::async, [&] { return run_agent(options); });
  const auto wait_for = [&](const std::string& wanted) {
    for (int i = 0; i < 6000; ++i) {
      if (std::ranges::count(Recorder::shared().entry("job-rank-0").delivered, wanted) == 1)
        return true;
      ::poll(nullptr, 0, 10);
    }
    return false;
  };
  auto info = sample_info("job-rank-0");
  info.job_id = "job";
  info.node_rank = 1;
  log->identity(info);
  log->config({});
  log_loss(*log, 2, 7);
  CHECK(wait_for("2 train/loss 7.000000"));
  ::close(ends[1]);  // the rank that started the agent is lost; another one writes the log
  log_loss(*log, 3, 8);
  CHECK(wait_for("3 train/loss 8.000000"));
  log->end({.state = RunState::Finished});
  log->close();
  REQUIRE(agent.wait_for(60s) == std::future_status::ready);
  CHECK(agent.get().complete);
  CHECK(Recorder::shared().entry("job-rank-0").end.state == RunState::Finished);
  ::close(ends[0]);
}

TEST_CASE("agent: one that waits takes over although its parent is lost meanwhile") {
  const TemporaryDirectory dir;
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  auto first = acquire_agent_lock(dir.path(), 0, -1);
  REQUIRE(first);
  CHECK_FALSE(acquire_agent_lock(dir.path(), 0, -1));
  auto second =
      std::async(std::launch::async, [&] { return acquire_agent_lock(dir.path(), 0, ends[0]); });
  while (!is_agent_waiting(dir.path(), 0)) ::poll(nullptr, 0, 10);
  ::close(ends[1]);
  CHECK(second.wait_for(500ms) == std::future_status::timeout);
  first->close();
  REQUIRE(second.wait_for(60s) == std::future_status::ready);
  CHECK(second.get());
  ::close(ends[0]);
}

TEST_CASE("agent: a run whose log has no end and no writer is recorded as killed") {
  const TemporaryDirectory dir;
  const auto run = make_job(dir, 1, false);
  run_agent(options_for(run, 1));
  const auto end = read_run_end(run);
  REQUIRE(end);
  CHECK(end->state == RunState::Killed);
  CHECK(end->rank == 0);
  CHECK(end->exit_code == 75);  // as a launcher reports it
  CHECK(end->signal == 9);
  CHECK(end->reason.find("exited without reporting") != std::string::npos);
  CHECK(Recorder::shared().entry("job-rank-0").end.state == RunState::Killed);
}

TEST_CASE("agent: without a launcher, a rank that neither logs nor reports is recorded as killed") {
  const TemporaryDirectory dir;
  const auto run = make_job(dir, 1, false);
  EventLogWriter log(event_log_path(run, 0));
  log.identity(sample_info("job", 0, 2));
  log.end({.state = RunState::Failed, .exit_code = 75, .rank = 0});
  log.close();
  auto options = options_for(run, 1);
  options.pids = {exited_process(), exited_process()};
  const EndFact lost_peer{.end = {RunState::Failed, 75, {}, 0, "lost a peer"},
                          .is_consequence = true};
  SECTION("it is the only rank that did not report") {
    record_end(run, lost_peer);
    run_agent(options);
    CHECK(read_run_end(run)->state == RunState::Killed);
    CHECK(read_run_end(run)->signal == 9);
    CHECK(read_run_end(run)->rank == 1);
  }
  SECTION("it reported a failure") {
    record_end(run, lost_peer);
    record_end(run, {.number = 1, .end = {RunState::Failed, 78, {}, 1, "its own failure"}});
    run_agent(options);
    CHECK(read_run_end(run)->exit_code == 78);
  }
  SECTION("no rank reports a lost peer") {
    record_end(run, {.end = {RunState::Failed, 70, {}, 0, "its own failure"}});
    run_agent(options);
    CHECK(read_run_end(run)->exit_code == 70);
  }
}

TEST_CASE("agent: the end that the launcher recorded takes precedence") {
  const TemporaryDirectory dir;
  const auto run = make_job(dir, 2, false);
  record_end(run, {.by = Witness::Launcher,
                   .end = {.state = RunState::Failed, .exit_code = 137, .signal = 9, .rank = 1}});
  run_agent(options_for(run, 2));
  const auto end = Recorder::shared().entry("job-rank-0").end;
  CHECK(end.state == RunState::Failed);
  CHECK(end.signal == 9);
  CHECK(end.rank == 1);
}

TEST_CASE("agent: while the launcher is alive, the report of a rank is not final") {
  const TemporaryDirectory dir;
  const auto run = make_job(dir, 2, false);
  record_end(run, {.end = {.state = RunState::Failed, .exit_code = 75, .rank = 0}});
  auto options = options_for(run, 2);
  options.launcher = ::getpid();
  auto agent = std::async(std::launch::async, [&] { return run_agent(options); });
  CHECK(agent.wait_for(1500ms) == std::future_status::timeout);
  record_end(run, {.by = Witness::Launcher,
                   .end = {.state = RunState::Killed, .exit_code = 137, .signal = 9, .rank = 1}});
  REQUIRE(agent.wait_for(60s) == std::future_status::ready);
  const auto end = Recorder::shared().entry("job-rank-0").end;
  CHECK(end.state == RunState::Killed);
  CHECK(end.rank == 1);
}

TEST_CASE("agent: reports why a sink rejected its records") {
  const TemporaryDirectory dir;
  const auto run = make_job(dir, 2, true, "refused");
  Recorder::shared().flush_with([] { throw config_error("the server rejected the token"); });
  const auto report = run_agent(options_for(run, 2));
  CHECK_FALSE(report.complete);
  REQUIRE(report.sinks.size() == 1);
  CHECK(report.sinks[0].gave_up);
  CHECK(describe_incomplete(read_sink_status(run, 0)).find("the server rejected the token") !=
        std::string::npos);
}

TEST_CASE("agent: retries a sink that is down until the upload timeout") {
  const TemporaryDirectory dir;
  const auto run = make_job(dir, 2, true, "down");
  auto options = options_for(run, 2);
  options.config.upload_timeout = {1s};
  Recorder::shared().flush_with([] { throw environment_error("connection refused"); });
  CHECK_FALSE(run_agent(options).complete);
}

TEST_CASE("sync: repeated syncs of a run deliver no duplicates") {
  const TemporaryDirectory dir;
  const auto run = make_job(dir, 2);
  SyncOptions options{.run_dir = run,
                      .config = recorder_config(),
                      .environment = [](const std::string&) { return std::nullopt; },
                      .ends = catalog::ends_to_sync(run),
                      .timeout = 60s,
                      .on_progress = {}};
  for (int i = 0; i < 3; ++i) {
    const auto sinks = sync_run(options);
    REQUIRE(sinks.size() == 1);
    CHECK(sinks[0].complete);
  }
  for (int rank = 0; rank < 2; ++rank) {
    const auto entry = Recorder::shared().entry("job-rank-" + std::to_string(rank));
    CHECK(entry.delivered.size() == 1);
    CHECK(entry.num_ends == 1);
  }
}

TEST_CASE("sync: rejects a run that is still running") {
  const TemporaryDirectory dir;
  const auto run = make_job(dir, 1, false);
  const EventLogWriter log(event_log_path(run, 0));
  CHECK_THROWS_WITH(catalog::ends_to_sync(run), Catch::Contains("is still running"));
}

TEST_CASE("runs: system metrics of the agent are shown with the first rank of its node") {
  const TemporaryDirectory dir;
  const auto run = make_job(dir, 2);
  run_agent(options_for(run, 2));
  catalog::NameTable names;
  const auto entries = entries_of(read_run(run, names), names);
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].metrics().contains("system/memory.percent"));
  CHECK_FALSE(entries[1].metrics().contains("system/memory.percent"));
}
