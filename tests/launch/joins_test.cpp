// Nodes that join a running attempt: launchers exchange messages.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "lockstep/error.h"
#include "tests/launch/launcher_nodes.h"
#include "tests/launch/shell_launch.h"

namespace lockstep::launch {

TEST_CASE("joins: a node that comes back takes the place of the lost one") {
  using enum GroupAnswer::Kind;
  LauncherNodes nodes(2);
  nodes.lose_second();
  nodes.start(1);
  const auto place = nodes.next<NodePlace>(1);
  CHECK(place.joins);
  CHECK(place.node_rank == 1);
  CHECK(place.first_rank == 2);
  CHECK(place.world_size == 4);
  CHECK(place.run_id == "run");
  CHECK(nodes.next<GroupState>(1).job->nodes[1].is_present);
  for (const int worker : {0, 1}) nodes.ask(1, worker, kNoState);
  CHECK(nodes.answer_to(0, Invited).kind == Invited);
  for (const int worker : {0, 1}) nodes.ask(0, worker, 9, GroupRequest::Kind::Changing);
  CHECK(nodes.answer_to(1, Join).world_size == 4);
  // It can replace the coordinator.
  nodes.crash(0);
  nodes.take_over(1);
  CHECK_FALSE(nodes.next<GroupState>(1).job->nodes[0].is_present);
}

TEST_CASE("joins: the node that was replaced does not return") {
  LauncherNodes nodes(3);
  nodes.crash(1);
  nodes.next<GroupState>(2);
  for (const int node : {0, 2})
    for (const int worker : {0, 1}) nodes.ask(node, worker, 7);
  CHECK(nodes.answer_to(2, GroupAnswer::Kind::Join).world_size == 4);
  nodes.start(1);
  nodes.next<NodePlace>(1);
  nodes.run_until([&] { return nodes.next<GroupState>(2).job->nodes[1].is_present; });
  nodes.freeze(1);
  nodes.crash(0);
  std::optional<Takeover> order;
  nodes.run_until([&] {
    while (auto command = nodes[2].client->next())
      if (auto* found = std::get_if<Takeover>(&*command)) order = *found;
    return order.has_value();
  });
  nodes[2].coordinator =
      replace_coordinator(nodes[2].options, *order, *nodes[2].client, nodes[2].judge);
  CHECK(nodes.refusal_of(1, 2) == "the job has continued without this node");
  nodes.thaw();
  CHECK(nodes.next<GroupState>(2).job->nodes[1].is_present);
}

TEST_CASE("joins: a node that does not fit is refused, and the others continue") {
  LauncherNodes nodes(2);
  nodes.lose_second();
  SECTION("more ranks") {
    nodes.start(1, 3);
    const auto finish = nodes.last_message(1);
    REQUIRE(finish.error);
    CHECK(finish.error->kind == "config");
    CHECK(finish.error->message.find("host1 (127.0.0.1) has 3 ranks and 0 spares, but host1 "
                                     "(127.0.0.1), in whose place it would join the running job, "
                                     "had 2 and 0") != std::string::npos);
  }
  SECTION("its workers fail before they are ranks") {
    nodes.start(1);
    nodes.next<NodePlace>(1);
    LaunchReport report;
    report.workers.push_back({.rank = 2, .exit = {.code = 78}});
    nodes[1].client->report_groups({{.kind = GroupEvent::Kind::Exited, .worker = 0},
                                    {.kind = GroupEvent::Kind::Exited, .worker = 1},
                                    {.kind = GroupEvent::Kind::Stopping}});
    nodes[1].client->report_attempt(report, false);
    const auto finish = nodes.last_message(1);
    REQUIRE(finish.error);
    CHECK(finish.error->kind == "config");
    CHECK(finish.error->message.find("could not join the running job: rank 2") !=
          std::string::npos);
  }
  SECTION("one is killed, and the other one waits for a place") {
    nodes.start(1);
    nodes.next<NodePlace>(1);
    nodes.ask(1, 1, kNoState);
    nodes[1].client->report_groups(
        {{.kind = GroupEvent::Kind::Killed, .worker = 0, .how = "killed by SIGKILL"}});
    bool has_order = false, has_end = false;
    nodes.run_until([&] {
      while (auto command = nodes[1].client->next()) {
        has_order = has_order || std::holds_alternative<StopOrder>(*command);
        if (const auto* state = std::get_if<GroupState>(&*command))
          for (const auto& [worker, answer] : state->answers)
            has_end = has_end || (worker == 1 && answer.kind == GroupAnswer::Kind::End);
      }
      return has_order && has_end;
    });
    LaunchReport report;
    report.workers.push_back({.rank = 3, .exit = {.code = 143}, .stopped = true});
    nodes[1].client->report_groups({{.kind = GroupEvent::Kind::Exited, .worker = 1}});
    nodes[1].client->report_attempt(report, false);
    const auto finish = nodes.last_message(1);
    REQUIRE(finish.error);
    CHECK(finish.error->kind == "environment");
    CHECK(finish.error->message.ends_with(
        "could not join the running job: a rank was killed by SIGKILL"));
  }
  nodes.start(1);
  CHECK(nodes.next<NodePlace>(1).joins);
  for (const int worker : {0, 1}) nodes.ask(1, worker, kNoState);
  CHECK(nodes.answer_to(0, GroupAnswer::Kind::Invited).kind == GroupAnswer::Kind::Invited);
}

TEST_CASE("joins: the job ends although a node that joins has not started its ranks") {
  using enum GroupEvent::Kind;
  LauncherNodes nodes(2);
  nodes.lose_second();
  nodes.start(1);
  nodes.next<NodePlace>(1);
  LaunchReport report;
  for (const int rank : {0, 1}) report.workers.push_back({.rank = rank, .exit = {.code = 0}});
  nodes[0].client->report_groups({{.kind = Exited, .worker = 0}, {.kind = Exited, .worker = 1}});
  nodes[0].client->report_attempt(report, false);
  int num_orders = 0;
  nodes.run_until([&] {
    while (auto command = nodes[1].client->next())
      num_orders += std::holds_alternative<StopOrder>(*command) ? 1 : 0;
    return num_orders > 0;
  });
  SECTION("it is lost") { nodes.crash(1); }
  SECTION("it stops") {
    LaunchReport stopped;
    for (const int rank : {2, 3})
      stopped.workers.push_back({.rank = rank, .exit = {.signal = SIGTERM}, .stopped = true});
    nodes[1].client->report_groups({{.kind = GroupEvent::Kind::Stopping},
                                    {.kind = Killed, .worker = 0, .how = "killed by SIGTERM"},
                                    {.kind = Killed, .worker = 1, .how = "killed by SIGTERM"}});
    nodes[1].client->report_attempt(stopped, false);
  }
  const auto finished = nodes.finish(0);
  CHECK(finished.succeeded());
  CHECK(finished.restarts == 0);
  CHECK(num_orders == 1);
}

TEST_CASE("joins: a node that does not share the run directory starts no ranks") {
  LauncherNodes nodes(2);
  ShellLaunch launch("exit 0", 2);
  const auto program = launch.options;
  launch.options = nodes[1].options;
  launch.options.program = program.program;
  launch.options.arguments = program.arguments;
  launch.options.stdout_fd = program.stdout_fd;
  launch.options.stderr_fd = program.stderr_fd;
  std::string reason = "its ranks have ended";
  int expected = static_cast<int>(ErrorKind::Environment);
  SECTION("it shares it") {}
  SECTION("it does not") {
    launch.options.runs_dir = launch.path("other");
    launch.options.share_timeout = std::chrono::milliseconds(200);
    reason =
        "--on-rank-loss continue needs a run.dir that all nodes share, but host1 does not see " +
        launch.path("other/run/claims/").string();
    expected = static_cast<int>(ErrorKind::Config);
  }
  nodes.lose_second();
  const auto process = ::fork();
  if (process == 0) {
    int code = 99;
    try {
      launch.run();
    } catch (const Error& error) {
      std::ofstream(launch.path("error")) << error.what();
      code = error.exit_code();
    }
    ::_exit(code);
  }
  int status = 0;
  nodes.run_until([&] { return ::waitpid(process, &status, WNOHANG) == process; });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == expected);
  CHECK(text_of(launch.path("error")).find(reason) != std::string::npos);
  CHECK(std::filesystem::exists(launch.path("logs")) ==
        (expected == static_cast<int>(ErrorKind::Environment)));
}

TEST_CASE("joins: a process that fails before it has taken part is lost, unlike the job") {
  LauncherNodes nodes(2);
  // When they are in a group, both are at step 5, the first one has done it, and the second one fails.
  ShellLaunch launch(
      "printf 'broken -1 1000 0 0 0' >&$LOCKSTEP_GROUP_FD\n"
      "page() { printf \"\\\\$1\" | dd of=/proc/self/fd/$LOCKSTEP_PROGRESS_FD bs=1 seek=$2 "
      "conv=notrunc; }\n"
      "page 005 24\n"
      "if [ $LOCAL_RANK = 0 ]; then\n"
      "  cat $DIR/group; page 001 29100\n"
      "  : > $DIR/step; cat $DIR/never\n"
      "fi\n"
      "cat $DIR/step; exit 75",
      2);
  for (const auto* name : {"group", "step", "never"})
    REQUIRE(::mkfifo(launch.path(name).c_str(), 0600) == 0);
  const auto program = launch.options;
  launch.options = nodes[1].options;
  launch.options.program = "/bin/bash";  // >&N with any number
  launch.options.arguments = program.arguments;
  launch.options.stdout_fd = program.stdout_fd;
  launch.options.stderr_fd = program.stderr_fd;
  nodes.lose_second();
  const auto process = ::fork();
  if (process == 0) {
    launch.run();
    ::_exit(0);
  }
  CHECK(nodes.answer_to(0, GroupAnswer::Kind::Invited).kind == GroupAnswer::Kind::Invited);
  for (const int worker : {0, 1}) nodes.ask(0, worker, 9, GroupRequest::Kind::Changing);
  CHECK(nodes.answer_to(0, GroupAnswer::Kind::Join).world_size == 4);
  std::ofstream(launch.path("group")) << "formed";
  CHECK(nodes.answer_to(0, GroupAnswer::Kind::Lost).group == 2);
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
  for (const int worker : {0, 1}) nodes.ask(0, worker, 9);
  nodes.answer_to(0, GroupAnswer::Kind::Join);
  CHECK(std::ranges::any_of(nodes[0].notes, [](const auto& note) {
    return note.starts_with("rank 3 (of 4) was lost, exited with code 75");
  }));
}

}  // namespace lockstep::launch
