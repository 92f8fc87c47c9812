#include "launch/rendezvous/regrouping.h"

#include <catch2/catch.hpp>

#include "tests/launch/regrouping_workers.h"

using namespace lockstep;
using namespace lockstep::launch;

TEST_CASE("regrouping: the others wait for the last one") {
  Workers workers(4);
  CHECK(workers->lose(1, "killed by SIGKILL"));
  workers.ask(0, 7);
  workers.ask(3, 7);
  CHECK(workers.place_of(0) == "none");
  workers.ask(2, 7);
  CHECK(workers.place_of(0) == "0/2");
  CHECK(workers.place_of(2) == "1/2");
  CHECK(workers.place_of(3) == "wait");
  CHECK(workers->take_changed());
  CHECK(workers->take_notes() ==
        std::vector<std::string>{"rank 1 (of 4) was lost, killed by SIGKILL: continuing with 2 "
                                 "ranks, 1 waiting as spare"});
  CHECK(workers->is_replaced(1));
  CHECK(workers->rank_of(2) == 1);
  CHECK(workers->rank_of(3) == std::nullopt);
}

TEST_CASE("regrouping: the most advanced state is that of rank 0") {
  Workers workers(4, 1);
  workers.ask(4, kNoState);
  workers->lose(0, "killed");
  workers.ask(1, 6);
  workers.ask(2, 7);
  workers.ask(3, 6);
  CHECK(workers.place_of(2) == "0/4");
  CHECK(workers.place_of(1) == "1/4");
  CHECK(workers.place_of(3) == "2/4");
  CHECK(workers.place_of(4) == "3/4");
}

TEST_CASE("regrouping: another loss while the others ask") {
  Workers workers(4);
  workers->lose(0, "killed");
  workers.ask(1, 5);
  workers.ask(2, 5);
  workers->lose(3, "killed");
  workers->lose(1, "killed");
  workers->update();
  CHECK(workers.place_of(2) == "0/1");
}

TEST_CASE("regrouping: a waiting rank returns") {
  Workers workers(4);
  workers->lose(0, "killed");
  for (int worker = 1; worker < 4; ++worker) workers.ask(worker, 5);
  CHECK(workers.place_of(3) == "wait");
  workers->lose(1, "killed");
  workers.ask(2, 9);
  workers.place_of(2);  // the first group
  CHECK(workers.place_of(2) == "0/2");
  CHECK(workers.place_of(3) == "1/2");
}

TEST_CASE("regrouping: without a loss, workers are refused") {
  Workers workers(2);
  workers.ask(0, 5);
  CHECK(workers.place_of(0) == "refused");
}

TEST_CASE(
    "regrouping: a rank that is slow to connect to a new group has the time that the others give "
    "it") {
  Workers workers(3);
  workers->lose(2, "killed by SIGKILL");
  for (const int worker : {0, 1}) workers.ask(worker, 5);
  for (const int worker : {0, 1}) CHECK(workers.place_of(worker).ends_with("/2"));
  const auto now = Regrouping::Clock::now();
  workers->ask(0, {.kind = GroupRequest::Kind::Broken, .step = 5, .patience_ms = 1000}, now);
  workers->update(now);
  CHECK(workers.place_of(0) == "none");
  SECTION("it asks, too") {
    workers.ask(1, 5);
    CHECK(workers.place_of(0) == "0/2");
    CHECK(workers.place_of(1) == "1/2");
    CHECK(workers->take_notes().back() == "not all ranks have connected: continuing with 2 ranks");
  }
  SECTION("it does not") {
    workers->update(now + std::chrono::seconds(2));
    CHECK(workers.place_of(1) == "overdue");
    workers->lose(1, "killed by SIGKILL");
    workers->update(now + std::chrono::seconds(2));
    CHECK(workers.place_of(0) == "0/1");
  }
}

TEST_CASE("regrouping: a rank leaves, the others continue when it has left") {
  using enum GroupRequest::Kind;
  Workers workers(2, 1);
  workers.ask(2, kNoState);
  workers.ask(1, 8, Changing);
  CHECK(workers.place_of(1) == "none");
  workers.ask(0, 8, Leaving);
  CHECK(workers.place_of(0) == "end");
  CHECK(workers.place_of(1) == "none");
  workers.disconnect(0);
  CHECK(workers.place_of(1) == "0/2");
  const auto answer = workers.answer_to(2);
  REQUIRE(answer);
  CHECK(answer->loss.ranks.front().has_left);
  CHECK(answer->loss.step == 8);
  CHECK(workers->take_notes().back() ==
        "rank 0 (of 2) left after SIGTERM: continuing with 2 ranks");
  workers->leave(0);
  CHECK(workers->rank_of(1) == 0);
}

TEST_CASE("regrouping: a rank that leaves is killed before it has left") {
  using enum GroupRequest::Kind;
  Workers workers(2);
  workers.ask(0, 8, Leaving);
  workers.ask(1, 8, Changing);
  CHECK(workers->lose(0, "killed by SIGKILL"));
  workers->update();
  CHECK(workers.place_of(1) == "0/1");
  CHECK(workers->take_notes() ==
        std::vector<std::string>{"rank 0 (of 2) left after SIGTERM: continuing with 1 rank"});
}

TEST_CASE("regrouping: not all ranks can leave, nor when workers are being stopped") {
  using enum GroupRequest::Kind;
  Workers all(2);
  all.ask(0, 8, Leaving);
  CHECK(all.place_of(0) == "none");
  all.ask(1, 8, Leaving);
  CHECK(all.place_of(0) == "refused");
  CHECK(all.place_of(1) == "refused");
  Workers stopped(2);
  stopped.ask(1, 8, Changing);
  stopped->stop();
  CHECK(stopped.place_of(1) == "refused");
  stopped.ask(0, 8, Leaving);
  CHECK(stopped.place_of(0) == "refused");
}

TEST_CASE("regrouping: workers are stopped while a rank leaves") {
  using enum GroupRequest::Kind;
  Workers workers(2);
  workers.ask(0, 8, Leaving);
  workers.ask(1, 8, Changing);
  workers->stop();
  CHECK(workers.place_of(1) == "none");  // its group is gone, but it has to save a checkpoint
  workers.disconnect(0);
  CHECK(workers.place_of(1) == "0/1");
  workers.ask(1, 9, Changing);
  CHECK(workers.place_of(1) == "refused");
}

TEST_CASE("regrouping: the last rank cannot be lost") {
  Workers workers(2, 1);
  CHECK(workers->lose(1, "killed"));
  CHECK_FALSE(workers->lose(0, "killed"));
  CHECK(workers.place_of(2) == "end");
  CHECK_FALSE(workers->is_replaced(1));
}

TEST_CASE("regrouping: a lost rank has failed if the others end without a new group") {
  Workers workers(3, 1);
  workers.ask(3, kNoState);
  CHECK(workers->leave(0));
  CHECK(workers->lose(1, "killed by SIGSEGV"));
  CHECK_FALSE(workers->leave(2));
  CHECK_FALSE(workers->is_replaced(1));
  CHECK(workers.place_of(3) == "end");
}

TEST_CASE("regrouping: the last ranks end after a loss") {
  Workers workers(3);
  workers->lose(1, "killed");
  workers.ask(0, 5);
  workers.ask(2, 5);
  CHECK(workers->leave(0));
  CHECK(workers->leave(2));
}

TEST_CASE("regrouping: spares end with the job") {
  Workers workers(1, 1);
  workers.ask(1, kNoState);
  CHECK(workers.place_of(1) == "none");
  workers->leave(0);
  CHECK(workers.place_of(1) == "end");
}

TEST_CASE("regrouping: a spare is killed while it ends with the job") {
  Workers workers(1, 1);
  workers.ask(1, kNoState);
  workers->leave(0);
  CHECK(workers.place_of(1) == "end");
  CHECK(workers->lose(1, "killed by SIGSEGV"));
  CHECK(workers->is_replaced(1));
}

TEST_CASE("regrouping: a worker that waits may end") {
  using Kind = GroupRequest::Kind;
  Workers workers(2, 2);
  workers.ask(2, kNoState);
  workers.ask(3, kNoState);
  workers.ask(2, kNoState, Kind::Quitting);
  CHECK(workers.place_of(2) == "end");
  CHECK(workers->take_notes() == std::vector<std::string>{"a spare is ready", "a spare is ready",
                                                          "a spare left after SIGTERM"});
  workers->lose(1, "killed");
  workers.ask(0, 7);
  CHECK(workers.place_of(0) == "0/2");
  CHECK(workers.place_of(3) == "1/2");
  workers.ask(3, kNoState, Kind::Quitting);  // sent before it got its place
  CHECK(workers.place_of(3) == "none");
  CHECK(workers->rank_of(3) == 1);
}

TEST_CASE("regrouping: a spare whose request to end was ignored asks again when it waits") {
  using Kind = GroupRequest::Kind;
  Workers workers(4, 1);
  workers.ask(4, kNoState);
  workers->lose(3, "killed");
  for (int worker = 0; worker < 3; ++worker) workers.ask(worker, 7);
  CHECK(workers.place_of(4) == "3/4");
  workers->lose(2, "killed");  // before the spare has joined
  workers.ask(4, kNoState);
  workers.ask(4, kNoState, Kind::Quitting);
  CHECK(workers.place_of(4) == "none");  // it has a place
  workers.ask(0, 7);
  workers.ask(1, 7);
  CHECK(workers.place_of(4) == "wait");
  workers.ask(4, kNoState, Kind::Quitting);
  CHECK(workers.place_of(4) == "end");
}

TEST_CASE("regrouping: a waiting worker has no state") {
  Workers workers(4);
  workers->lose(0, "killed");
  for (int worker = 1; worker < 4; ++worker) workers.ask(worker, 5);
  CHECK(workers.place_of(3) == "wait");
  workers->lose(1, "killed");
  workers.ask(2, kNoState);  // as if rank 0 were lost before it sent the state
  workers.place_of(2);       // the first group
  CHECK(workers.place_of(2) == "refused");
  CHECK(workers.place_of(3) == "end");
}

TEST_CASE("regrouping: stopped workers are refused") {
  Workers workers(2);
  workers->lose(1, "killed");
  workers->stop();
  workers.ask(0, 5);
  CHECK(workers.place_of(0) == "refused");
}

TEST_CASE("regrouping: ranks of several nodes") {
  Workers workers(Nodes{{2, 0, "10.0.0.1"}, {2, 1, "10.0.0.2"}});
  workers.ask(4, kNoState);
  CHECK(workers->lose(0, "killed"));
  CHECK(workers.place_of(1) == "lost");
  CHECK(workers.place_of(2) == "lost");
  CHECK(workers.place_of(3) == "lost");
  CHECK(workers.place_of(4) == "none");  // in no group
  for (int worker = 1; worker < 4; ++worker) workers.ask(worker, worker == 3 ? 6 : 5);
  const auto first = workers.answer_to(3);  // has the state of step 6
  REQUIRE(first);
  CHECK(first->rank == 0);
  CHECK(workers.place_of(3) == "none");
  CHECK(workers.place_of(1) == "1/4");
  const auto spare = workers.answer_to(4);
  REQUIRE(spare);
  CHECK(spare->rank == 3);
  CHECK(spare->local_rank == 2);
  CHECK(spare->local_world_size == 3);
  CHECK(spare->host == "10.0.0.2");
  CHECK(spare->port == 1003);
  CHECK(spare->loss.spares == std::vector{2});  // its number on the node
  CHECK(spare->loss.spare_nodes == std::vector{1});
  CHECK(spare->loss.time > 0);  // tells it from the same loss in another attempt
  CHECK(spare->loss.time == first->loss.time);
}

TEST_CASE("regrouping: a node is lost") {
  Workers workers(Nodes{{2, 0, "a"}, {1, 1, "b"}});
  CHECK(workers->lose_node(1, "with b: gone"));
  CHECK(workers->is_replaced(3));
  CHECK_FALSE(workers->is_replaced(2));
  workers.ask(0, 5);
  workers.ask(1, 5);
  CHECK(workers.place_of(0) == "lost");
  CHECK(workers.place_of(0) == "0/2");
  CHECK(workers->is_replaced(2));
  CHECK(workers->lose_node(1, "again"));
  CHECK_FALSE(workers->lose_node(0, "the last one"));
  CHECK(workers->rank_of(0) == 0);
  CHECK(workers->take_notes() ==
        std::vector<std::string>{"a spare was lost, with b: gone",
                                 "rank 2 (of 3) was lost, with b: gone: continuing with 2 ranks"});
}

TEST_CASE("regrouping: a node is lost after its only rank") {
  Workers workers(Nodes{{1, 0, "a"}, {1, 0, "b"}});
  CHECK(workers->lose(1, "killed by SIGKILL"));
  CHECK(workers->lose_node(1, "with b: gone"));  // before the others have asked
  CHECK(workers.place_of(0) == "lost");
  workers.ask(0, 5);
  CHECK(workers.place_of(0) == "0/1");
  CHECK(workers->lose_node(1, "with b: gone"));  // and after that
  CHECK(workers->take_notes() ==
        std::vector<std::string>{
            "rank 1 (of 2) was lost, killed by SIGKILL: continuing with 1 rank"});
}

TEST_CASE("regrouping: the loss of a node is one message") {
  Workers workers(Nodes{{1, 0, "a"}, {3, 0, "b"}});
  CHECK(workers->lose_node(1, "with b: gone"));
  CHECK(workers.place_of(0) == "lost");
  CHECK(workers.place_of(0) == "none");
}

TEST_CASE("regrouping: other nodes may notice a loss before it is reported") {
  Workers workers(Nodes{{1}, {1}}, std::chrono::milliseconds(1000));
  const auto begin = Regrouping::Clock::now();
  workers->ask(0, {GroupRequest::Kind::Broken, 5});
  workers->update(begin);
  workers->update(begin + std::chrono::milliseconds(999));
  CHECK(workers.place_of(0) == "none");
  SECTION("it is reported") {
    workers->lose(1, "killed");
    workers->update(begin + std::chrono::milliseconds(999));
    CHECK(workers.place_of(0) == "0/1");
  }
  SECTION("there is none") {
    workers->update(begin + std::chrono::milliseconds(1001));
    CHECK(workers.place_of(0) == "refused");
  }
}

TEST_CASE("regrouping: another coordinator continues") {
  const Nodes nodes{{2, 1, "10.0.0.1"}, {2, 0, "10.0.0.2"}, {1, 0, "10.0.0.3"}};
  Workers old(nodes);
  old->lose(4, "killed by SIGKILL");  // of node 1
  for (const int worker : {0, 1, 3, 5}) old.ask(worker, 5);
  JobState state;
  old->save(state);
  CHECK(state.group == 1);
  CHECK(state.ranks == std::vector{0, 1, -1, 2, -1, 3});
  old->lose(5, "killed by SIGSEGV");  // has no place yet
  old->save(state);

  Workers next(nodes);
  next->restore(state);
  CHECK(next->rank_of(3) == 2);
  CHECK(next->is_replaced(4));
  CHECK_FALSE(next->is_replaced(5));
  CHECK(next->lose(5, "killed by SIGSEGV"));  // repeated
  CHECK(next->lose_node(0, "with alpha"));
  CHECK(next.place_of(3) == "lost");
  next.ask(3, 9);
  const auto answer = next.answer_to(3);
  REQUIRE(answer);
  CHECK(answer->group == 2);
  CHECK(answer->loss.before == 4);
  std::vector<std::string> lost;
  for (const auto& rank : answer->loss.ranks)
    lost.push_back(std::to_string(rank.rank) + " " + rank.how);
  CHECK(lost == std::vector<std::string>{"3 killed by SIGSEGV", "0 with alpha", "1 with alpha"});
  CHECK(next->is_replaced(5));
}

TEST_CASE("regrouping: another coordinator does not report spares again") {
  const Nodes nodes{{1, 1, "10.0.0.1"}, {1, 2, "10.0.0.2"}};
  Workers old(nodes);
  old.ask(3, kNoState);
  CHECK(old->take_changed());
  JobState state;
  old->save(state);
  Workers next(nodes);
  next->restore(state);
  next.ask(3, kNoState);  // repeated
  CHECK(next->take_notes().empty());
  next.ask(4, kNoState);
  CHECK(next->take_notes() == std::vector<std::string>{"a spare is ready"});
}
