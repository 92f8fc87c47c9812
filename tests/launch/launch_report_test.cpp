#include "launch/report/launch_report.h"

#include <catch2/catch.hpp>
#include <csignal>

namespace lockstep::launch {
namespace {

WorkerEnd exited(int rank, int code, int64_t time_us) {
  return {.rank = rank, .local_rank = rank, .exit = {.code = code}, .time_us = time_us};
}

WorkerEnd killed(int rank, int signal, int64_t time_us) {
  return {.rank = rank, .local_rank = rank, .exit = {.signal = signal}, .time_us = time_us};
}

WorkerEnd with_error(WorkerEnd end, const std::string& message, bool peer, int64_t time_us) {
  end.error =
      ErrorReport{.message = message, .kind = "environment", .peer = peer, .timestamp_us = time_us};
  return end;
}

}  // namespace

TEST_CASE("launch report: without a failure there is no cause") {
  LaunchReport report{.world_size = 2, .workers = {exited(0, 0, 5), exited(1, 0, 6)}};
  CHECK(report.succeeded());
  CHECK(report.exit_code() == 0);
  CHECK(report.text().empty());
}

TEST_CASE("launch report: a rank that lost its peer is not the cause, even if it ended first") {
  const std::vector<WorkerEnd> workers = {with_error(exited(0, 75, 10), "rank 1 is gone", true, 9),
                                          killed(1, SIGKILL, 20)};
  REQUIRE(find_cause(workers));
  CHECK(find_cause(workers)->rank == 1);
}

TEST_CASE("launch report: if all ranks lost a peer, the first of them is reported") {
  const std::vector<WorkerEnd> workers = {with_error(exited(0, 75, 10), "a", true, 9),
                                          with_error(exited(1, 75, 8), "b", true, 5)};
  REQUIRE(find_cause(workers));
  CHECK(find_cause(workers)->rank == 1);
}

TEST_CASE("launch report: if all other ranks timed out, the rank that they waited for is named") {
  auto culprit = with_error(exited(1, 75, 20), "Connection closed by peer", true, 19);
  culprit.stopped = true;
  culprit.hang = "kept the others waiting until they gave up after 8 s: it is stopped\nit was at x";
  LaunchReport report{.world_size = 2,
                      .workers = {with_error(exited(0, 75, 10), "waited 8 s", true, 9), culprit}};
  CHECK(report.exit_code() == 75);
  CHECK(report.text() ==
        "rank 1 (of 2) kept the others waiting until they gave up after 8 s: it is stopped\n"
        "  it was at x\n"
        "  failed later: rank 0\n");
  SECTION("a later signal is ignored") {
    report.workers[1].exit = {.signal = SIGSEGV};
    CHECK(report.exit_code() == 75);
  }
  SECTION("a failure without a lost peer takes precedence") {
    report.workers[0].error->peer = false;
    CHECK(report.cause()->rank == 0);
  }
  SECTION("so does a lost node") {
    report.node_failures.push_back({.node_rank = 1, .host = "b", .reason = "lost"});
    CHECK(report.cause() == nullptr);
    CHECK(report.summary() == "node 1 on b: lost");
  }
}

TEST_CASE("launch report: a rank's own timestamp takes precedence over that of its exit") {
  const std::vector<WorkerEnd> workers = {exited(0, 1, 15),
                                          with_error(exited(1, 70, 30), "slow to end", false, 10)};
  CHECK(find_cause(workers)->rank == 1);
}

TEST_CASE("launch report: a rank that was stopped is never the cause") {
  auto stopped = killed(0, SIGTERM, 5);
  stopped.stopped = true;
  CHECK(find_cause({stopped, exited(1, 3, 10)})->rank == 1);
  CHECK(find_cause({stopped}) == nullptr);
}

TEST_CASE("launch report: the exit code indicates whether a restart may help") {
  const auto code_of = [](const WorkerEnd& end) {
    return LaunchReport{.workers = {end}}.exit_code();
  };
  CHECK(code_of(exited(0, 78, 1)) == 78);
  CHECK(code_of(exited(0, 3, 1)) == 3);
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL})
    CHECK(code_of(killed(0, signal, 1)) == 70);
  CHECK(code_of(killed(0, SIGKILL, 1)) == 75);
  CHECK(code_of(killed(0, SIGTERM, 1)) == 75);
}

TEST_CASE("launch report: a rank that reported an error before it was stopped counts as exited") {
  auto end = with_error(killed(0, SIGTERM, 20), "run.yaml:3: no", false, 5);
  end.error->kind = "config";
  const LaunchReport report{.world_size = 2, .workers = {end, exited(1, 78, 10)}};
  CHECK(report.exit_code() == 78);
  CHECK(report.summary() == "rank 0 (of 2) failed first: exited with code 78 (the input is wrong)");
  CHECK_FALSE(end.fatal_signal());
  CHECK(killed(0, SIGKILL, 20).fatal_signal() == SIGKILL);
}

TEST_CASE("launch report: if all ranks failed with the same error, none of them is blamed") {
  const auto rejected = [](int rank, const std::string& message, int64_t time_us) {
    auto end = with_error(exited(rank, 78, time_us), message, false, time_us);
    end.error->kind = "config";
    return end;
  };
  const std::string message = "step 3, rank 0: the loss is nan";
  LaunchReport report{
      .world_size = 3,
      .workers = {rejected(0, message, 9), rejected(1, message, 5), rejected(2, message, 7)}};
  const std::string alike = "all 3 ranks failed: exited with code 78 (the input is wrong)";
  CHECK(report.all_failed_alike());
  CHECK(report.exit_code() == 78);
  CHECK(report.summary() == alike);
  CHECK(report.text() == alike + "\n  step 3, rank 0: the loss is nan\n");
  SECTION("also if one exits only after the launcher stopped it") {
    report.workers[2].exit = {.signal = SIGTERM};
    CHECK(report.summary() == alike);
  }
  SECTION("another message") {
    report.workers[2].error->message = "step 4";
    CHECK(report.text() ==
          "rank 1 (of 3) failed first: exited with code 78 (the input is wrong)\n"
          "  step 3, rank 0: the loss is nan\n  failed later: ranks 0, 2\n");
  }
  SECTION("a rank that a signal killed") {
    report.workers[2].exit = {.signal = SIGSEGV};
    CHECK(report.summary().starts_with("rank 1 (of 3) failed first: "));
  }
  SECTION("a rank that was stopped, or has no message") {
    report.workers[2].stopped = true;
    CHECK_FALSE(report.all_failed_alike());
    report.workers[2] = exited(2, 78, 7);
    CHECK_FALSE(report.all_failed_alike());
  }
  SECTION("a job of one rank") {
    const LaunchReport alone{.world_size = 1, .workers = {rejected(0, message, 5)}};
    CHECK(alone.summary().starts_with("rank 0 (of 1) failed first: "));
  }
}

TEST_CASE("launch report: the text has the rank, the reason, and how the others ended") {
  auto stopped = killed(2, SIGTERM, 30);
  stopped.stopped = true;
  LaunchReport report{
      .world_size = 3,
      .workers = {with_error(exited(0, 75, 20), "peer", true, 19),
                  with_error(exited(1, 78, 10), "a.yaml:3: unknown key 'lrr'", false, 9), stopped}};
  CHECK(report.text() ==
        "rank 1 (of 3) failed first: exited with code 78 (the input is wrong)\n"
        "  a.yaml:3: unknown key 'lrr'\n"
        "  failed later: rank 0\n"
        "  stopped as a result: rank 2\n");
}

TEST_CASE("launch report: a rank without an error message is described by its last lines") {
  auto end = killed(0, SIGSEGV, 1);
  end.last_lines = {"loading", "crash"};
  LaunchReport report{.world_size = 1, .workers = {end}, .notes = {"stdout.log is incomplete"}};
  CHECK(
      report.text() ==
      "rank 0 (of 1) failed first: killed by SIGSEGV (invalid memory access)\n  loading\n  crash\n"
      "  note: stdout.log is incomplete\n");
}

TEST_CASE("launch report: a stop by a signal is reported as such, not as a failure of a rank") {
  LaunchReport report{.world_size = 1, .workers = {exited(0, 1, 1)}, .interrupted_by = SIGINT};
  CHECK(report.exit_code() == 130);
  CHECK(report.cause() == nullptr);
  CHECK(report.text() == "stopped by SIGINT\n");
}

}  // namespace lockstep::launch
