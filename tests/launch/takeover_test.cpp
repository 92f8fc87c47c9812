// The loss of the coordinator: launchers exchange messages.
#include <catch2/catch.hpp>
#include <csignal>

#include "lockstep/error.h"
#include "tests/launch/launcher_nodes.h"

namespace lockstep::launch {

TEST_CASE("takeover: the next node serves the rendezvous, the others join it") {
  LauncherNodes nodes(3);
  // The worker asked before the coordinator was lost.
  nodes[2].client->hold_events(std::vector<GroupEvent>{{.worker = 0, .request = {.step = 7}}});
  nodes.crash(0);
  nodes.take_over(1);
  CHECK(nodes.next<CoordinatorLoss>(2).had_ranks);
  const auto state = nodes.next<GroupState>(2);
  REQUIRE(state.job);
  CHECK(state.job->coordinator == 1);
  CHECK_FALSE(state.job->nodes[0].is_present);
  nodes.next<GroupState>(1);
  nodes.ask(1, 0, 7);
  nodes.ask(1, 1, 7);
  nodes.ask(2, 1, 7);
  const auto has_group = [](const GroupState& any) {
    return !any.answers.empty() && any.answers.front().answer.kind == GroupAnswer::Kind::Join;
  };
  auto formed = nodes.next<GroupState>(1);
  while (!has_group(formed)) formed = nodes.next<GroupState>(1);
  REQUIRE(formed.answers.size() == 2);
  CHECK(formed.answers.front().answer.world_size == 4);
  CHECK(formed.answers.front().answer.loss.ranks.size() == 2);
  CHECK(nodes[1].notes.front().find("which served the rendezvous: the connection was closed; this "
                                    "node serves it now") != std::string::npos);

  LaunchReport report;
  report.workers.push_back({.rank = 0});
  nodes[1].client->report_attempt(report, false);
  nodes[2].client->report_attempt(report, false);
  CHECK(nodes.finish(2).succeeded());
}

TEST_CASE("takeover: the node of the first coordinator comes back") {
  LauncherNodes nodes(2);
  CHECK_FALSE(nodes.moved().find());
  nodes.crash(0);
  nodes.take_over(1);
  nodes.next<GroupState>(1);
  for (const int worker : {0, 1}) nodes.ask(1, worker, 7);
  CHECK(nodes.answer_to(1, GroupAnswer::Kind::Join).world_size == 2);
  nodes.start(0);
  CHECK_FALSE(nodes[0].coordinator);
  const auto place = nodes.next<NodePlace>(0);
  CHECK(place.joins);
  CHECK(place.node_rank == 0);
  CHECK(place.run_id == "run");
  nodes[1].coordinator->interrupt(SIGTERM);
  CHECK_FALSE(nodes.moved().find());
}

TEST_CASE("takeover: a restart waits for the node of the first coordinator") {
  LauncherNodes nodes(2);
  nodes.crash(0);
  nodes.take_over(1);
  nodes.next<GroupState>(1);
  LaunchReport failed;
  failed.workers.push_back({.rank = 2, .exit = {.code = 1}});
  nodes[1].client->hold_events(std::nullopt);
  nodes[1].client->report_attempt(failed, false);
  nodes[1].client->set_ready();
  nodes.start(0);
  const auto place = nodes.next<NodePlace>(0);
  CHECK_FALSE(place.joins);
  CHECK(place.restart_count == 1);
  CHECK(place.world_size == 4);
  CHECK(nodes[1].notes.back().starts_with("restart 1 of 1"));
}

TEST_CASE("takeover: a node that waits for a place finds the new coordinator") {
  LauncherNodes nodes(2);
  nodes.start_another();
  nodes.run_until([&] { return !nodes[0].notes.empty(); });
  CHECK(nodes[0].notes.front().starts_with("another (127.0.0.1) joined: it will take part after"));
  nodes.crash(0);
  nodes.next<StopOrder>(2);
  nodes.take_over(1);
  nodes.next<GroupState>(1);
  const auto note = nodes[2].client->take_notes().back();
  CHECK(note.ends_with("the connection was closed; this node tries to reconnect for 60 s"));
  CHECK_FALSE(nodes[2].client->next());
  for (const int worker : {0, 1}) nodes.ask(1, worker, 7);
  CHECK(nodes.answer_to(1, GroupAnswer::Kind::Join).world_size == 2);
  nodes.start_another();
  nodes.next<NodePlace>(3);
}

TEST_CASE("takeover: what a file says is not believed") {
  LauncherNodes nodes(2);
  int port = local_address(listen_everywhere(0).get()).port();
  SECTION("nothing is served there") {}
  SECTION("another job is served there") {
    nodes.crash(1);
    port = nodes.use_port_of(1);
  }
  nodes.moved().write({"127.0.0.1", port});
  nodes.start_another();
  nodes.next<NotServed>(2);
}

TEST_CASE("takeover: a side without the claim stops") {
  LauncherNodes nodes(2);
  nodes.crash(0);
  CHECK(nodes.next<CoordinatorLoss>(1).had_ranks);
  auto order = nodes.next<Takeover>(1);
  CHECK(nodes.claims_of(0).claim({0}));
  nodes[1].coordinator =
      replace_coordinator(nodes[1].options, order, *nodes[1].client, nodes[1].judge);
  const auto finish = nodes.next<FinishMessage>(1);
  REQUIRE(finish.error);
  CHECK(finish.error->message.ends_with("another node continues the job without this one"));
  CHECK(nodes[1].coordinator->has_given_way());
}

TEST_CASE("takeover: a job that is being stopped continues on one side only") {
  LauncherNodes nodes(2);
  LaunchReport failed;
  failed.workers.push_back({.rank = 0, .exit = {.code = 1}});
  SECTION("the coordinator claims it first") {
    nodes[0].client->report_attempt(failed, false);
    nodes.next<StopOrder>(1);
    nodes.crash(1);
    nodes.run_until([&] { return std::filesystem::exists(nodes.claims_of(1).file()); });
    CHECK_FALSE(nodes.claims_of(1).claim({1}));
    CHECK_FALSE(nodes[0].coordinator->has_given_way());
  }
  SECTION("the other side has claimed it") {
    CHECK(nodes.claims_of(1).claim({1}));
    nodes[0].client->report_attempt(failed, false);
    nodes.next<StopOrder>(1);
    nodes.crash(1);
    REQUIRE(nodes.next<FinishMessage>(0).error);
    CHECK(nodes[0].coordinator->has_given_way());
  }
}

TEST_CASE("takeover: a node that was lost before does not count") {
  LauncherNodes nodes(4);
  nodes.crash(1);
  for (const int node : {2, 3}) CHECK_FALSE(nodes.next<GroupState>(node).job->nodes[1].is_present);
  nodes.crash(0);
  nodes.freeze(3);
  nodes.take_over(2);
  CHECK(nodes.refusal_of(1, 2) == "the job has continued without this node");
  nodes.thaw();
  const auto state = nodes.next<GroupState>(2);
  CHECK(state.job->nodes[3].is_present);
  CHECK_FALSE(state.job->nodes[1].is_present);
}

TEST_CASE("takeover: a node that was dropped ends") {
  LauncherNodes nodes(2, std::chrono::milliseconds(100));
  nodes.freeze(1);
  CHECK_FALSE(nodes.next<GroupState>(0).job->nodes[1].is_present);
  nodes.thaw();
  nodes.next<CoordinatorLoss>(1);  // its workers are killed
  const auto finish = nodes.next<FinishMessage>(1);
  REQUIRE(finish.error);
  CHECK(
      finish.error->message.ends_with("which serves the rendezvous: it dropped this node; the job "
                                      "has continued without this node"));
}

TEST_CASE("takeover: another job uses the port of the next node") {
  LauncherNodes nodes(3);
  nodes.crash(0);
  nodes.crash(1);
  nodes.use_port_of(1);
  nodes.take_over(2);
  CHECK(nodes.next<GroupState>(2).job->coordinator == 2);
}

TEST_CASE("takeover: a signal meanwhile") {
  LauncherNodes nodes(2);
  nodes.crash(0);
  nodes.take_over(1);
  nodes[1].coordinator->interrupt(SIGTERM);
  nodes.ask(1, 0, 7);
  nodes[1].client->report_groups({{.kind = GroupEvent::Kind::Stopping}});
  SECTION("the job ends, the workers that wait are refused") {
    CHECK(nodes.next<GroupState>(1).job);
    CHECK(nodes.next<FinishMessage>(1).report.interrupted_by == SIGTERM);
    const auto state = nodes.next<GroupState>(1);
    REQUIRE_FALSE(state.answers.empty());
    CHECK(state.answers.back().answer.kind == GroupAnswer::Kind::Refused);
    CHECK_FALSE(nodes.claims_of(0).claim({0}));
  }
  SECTION("another node has claimed it") {
    CHECK(nodes.claims_of(0).claim({0}));
    REQUIRE(nodes.next<FinishMessage>(1).error);
    CHECK(nodes[1].coordinator->has_given_way());
  }
}

TEST_CASE("takeover: a node whose workers are being stopped does not take over") {
  LauncherNodes nodes(2);
  nodes[1].client->hold_events(std::vector<GroupEvent>{{.kind = GroupEvent::Kind::Stopping}});
  nodes.crash(0);
  REQUIRE(nodes.next<FinishMessage>(1).error);
}

}  // namespace lockstep::launch
