// Groups that change without a loss: slow ranks leave, workers join.
#include <catch2/catch.hpp>

#include "tests/launch/regrouping_workers.h"

using namespace lockstep;
using namespace lockstep::launch;

TEST_CASE("regrouping: a slow rank is replaced by a spare, and keeps its place without one") {
  using enum GroupRequest::Kind;
  Workers workers(2, 1);
  for (const int64_t step : {8, 9}) {
    workers.ask(1, step, Replaced, 2.345);
    CHECK(workers.place_of(1) == "none");
    workers.ask(0, step, Changing);
    CHECK(workers.place_of(0) == "refused");
    CHECK(workers.place_of(1) == "refused");
  }
  CHECK(workers->take_notes() ==
        std::vector<std::string>{"rank 1 (of 2) takes 2.35 times as long per step as the other "
                                 "ranks, but keeps its place: no spare is ready"});
  workers.ask(2, kNoState);
  workers.ask(0, 10, Changing);
  workers.ask(1, 10, Replaced, 2.345);
  CHECK(workers.place_of(1) == "end");
  CHECK(workers.place_of(0) == "none");
  workers.disconnect(1);
  CHECK(workers.place_of(0) == "0/2");
  CHECK(workers.place_of(2) == "1/2");
  CHECK(workers->take_notes().back() ==
        "rank 1 (of 2) left after taking 2.35 times as long per step as the other ranks: "
        "continuing with 2 ranks");
}

TEST_CASE("regrouping: a slow rank is excluded if the others are faster without it") {
  using enum GroupRequest::Kind;
  for (const double slowness : {1.9, 2.0, 2.1}) {
    Workers workers(4);
    for (const int worker : {0, 1, 3}) workers.ask(worker, 8, Changing);
    workers.ask(2, 8, Excluded, slowness);
    CHECK(workers.place_of(2) == (slowness > 2 ? "end" : "refused"));
    CHECK(workers.place_of(3) == (slowness > 2 ? "none" : "refused"));
  }
}

TEST_CASE("regrouping: a slow rank takes part if another one was lost or leaves") {
  using enum GroupRequest::Kind;
  Workers lost(2, 1);
  lost.ask(2, kNoState);
  CHECK(lost->lose(0, "killed by SIGKILL"));
  lost.ask(1, 8, Replaced, 3);
  CHECK(lost.place_of(1) == "0/2");
  CHECK(lost.place_of(2) == "1/2");
  Workers leaving(2, 1);
  leaving.ask(2, kNoState);
  leaving.ask(0, 8, Leaving);
  leaving.ask(1, 8, Excluded, 3);
  CHECK(leaving.place_of(0) == "end");
  leaving.disconnect(0);
  CHECK(leaving.place_of(1) == "0/2");
}

namespace {

// Of two nodes with two ranks each, the second one was lost and comes back.
Workers workers_of_node_that_is_back(std::chrono::milliseconds patience = {}) {
  Workers workers(Nodes{{2, 0}, {2, 0}}, patience);
  workers->lose_node(1, "with beta");
  for (const int worker : {0, 1}) CHECK(workers.place_of(worker) == "lost");
  for (const int worker : {0, 1}) workers.ask(worker, 5);
  for (const int worker : {0, 1}) CHECK(workers.place_of(worker).ends_with("/2"));
  workers->take_notes();
  CHECK(workers->can_add_node(1));
  workers->add_node(1, "10.0.0.3");
  return workers;
}

}  // namespace

TEST_CASE("regrouping: the workers of a node that comes back join after a step") {
  using enum GroupRequest::Kind;
  auto workers = workers_of_node_that_is_back();
  workers.ask(2, kNoState);
  CHECK(workers.place_of(0) == "none");  // three ranks would be no larger group
  workers.ask(3, kNoState);
  for (const int worker : {0, 1}) CHECK(workers.place_of(worker) == "invited");
  workers.ask(1, 9, Changing);
  CHECK(workers.place_of(0) == "none");
  workers.ask(0, 9, Changing);
  const auto answer = workers.answer_to(3);
  REQUIRE(answer);
  CHECK(answer->rank == 3);
  CHECK(answer->world_size == 4);
  CHECK(answer->loss.ranks.empty());
  CHECK(answer->loss.spares == std::vector<int>{0, 1});
  CHECK(answer->loss.spare_nodes == std::vector<int>{1, 1});
  CHECK(describe(answer->loss) ==
        "2 ranks joined; continued after step 9 with 4 ranks, with spares 0 of node 1, 1 of node "
        "1");
  CHECK(workers.place_of(0) == "0/4");
  CHECK(workers->take_notes() == std::vector<std::string>{"a spare is ready", "a spare is ready",
                                                          "2 ranks joined: continuing with 4 "
                                                          "ranks"});
  workers->lose(0, "killed");  // as any other rank
  for (const int worker : {1, 2, 3}) workers.ask(worker, 12);
  CHECK(workers.place_of(1) == "1/4");
  CHECK(workers.place_of(1) == "lost");
  CHECK(workers.place_of(1) == "0/2");
}

TEST_CASE("regrouping: a worker that joins is lost before its group trains") {
  auto workers = workers_of_node_that_is_back();
  for (const int worker : {2, 3}) workers.ask(worker, kNoState);
  SECTION("before the others have asked: they keep their group") {
    workers->lose(3, "killed");
    for (const int worker : {0, 1}) workers.ask(worker, 9, GroupRequest::Kind::Changing);
    for (const int worker : {0, 1}) {
      CHECK(workers.place_of(worker) == "invited");
      CHECK(workers.place_of(worker) == "refused");
    }
    CHECK_FALSE(workers->can_add_node(1));  // one of its workers waits
    workers->lose(2, "killed");
    REQUIRE(workers->can_add_node(1));
    workers->add_node(1, "10.0.0.3");
    for (const int worker : {2, 3}) workers.ask(worker, kNoState);
    CHECK(workers.place_of(0) == "invited");
  }
  SECTION("afterwards") {
    for (const int worker : {0, 1}) workers.ask(worker, 9, GroupRequest::Kind::Changing);
    CHECK(workers.place_of(3) == "3/4");
    workers->lose_node(1, "with beta");
    CHECK_FALSE(workers->can_add_node(1));  // the others have not continued yet
    for (const int worker : {0, 1}) workers.ask(worker, 9);
    CHECK(workers->world_size() == 2);
    CHECK(workers->can_add_node(1));
  }
}

TEST_CASE("regrouping: the ranks continue without those that join and cannot reach them") {
  using namespace std::chrono_literals;
  auto workers = workers_of_node_that_is_back(1s);
  for (const int worker : {2, 3}) workers.ask(worker, kNoState);
  for (const int worker : {0, 1}) workers.ask(worker, 9, GroupRequest::Kind::Changing);
  const std::vector<std::string> places = {"0/4", "1/4", "2/4", "3/4"};
  for (const int worker : {0, 1}) {
    CHECK(workers.place_of(worker) == "invited");
    CHECK(workers.place_of(worker) == places[static_cast<size_t>(worker)]);
  }
  for (const int worker : {2, 3})
    CHECK(workers.place_of(worker) == places[static_cast<size_t>(worker)]);
  workers->take_notes();
  SECTION("they ask, too: the same group is tried once more") {
    for (const int worker : {0, 1, 2, 3}) workers.ask(worker, 9);
    for (const int worker : {0, 1, 2, 3})
      CHECK(workers.place_of(worker) == places[static_cast<size_t>(worker)]);
    workers->take_notes();
    for (const int worker : {3, 1, 2, 0}) workers.ask(worker, 9);
  }
  SECTION("they are stopped") {
    const auto now = Regrouping::Clock::now();
    for (const int worker : {0, 1}) workers.ask(worker, 9);
    for (const int worker : {0, 1, 2, 3}) CHECK(workers.place_of(worker) == "none");
    workers->update(now + 3s);
  }
  CHECK(workers.place_of(0) == "0/2");
  CHECK(workers.place_of(1) == "1/2");
  for (const int worker : {2, 3}) CHECK(workers.place_of(worker) == "overdue");
  const std::string how =
      " (of 4) was lost, killed because the others could not form a group with it";
  CHECK(workers->take_notes() ==
        std::vector<std::string>{"rank 2" + how + "; rank 3" + how + ": continuing with 2 ranks"});
  for (const int worker : {2, 3}) {
    workers.ask(worker, 9);
    CHECK(workers->lose(worker, "killed by SIGKILL"));
  }
  CHECK(workers.place_of(0) == "none");  // and are not invited again
  CHECK(workers->take_notes().empty());
}

TEST_CASE("regrouping: a rank that is invited and does not ask is killed") {
  auto workers = workers_of_node_that_is_back();
  for (const int worker : {2, 3}) workers.ask(worker, kNoState);
  const auto now = Regrouping::Clock::now();
  workers->ask(0, {.kind = GroupRequest::Kind::Changing, .step = 9, .patience_ms = 1000}, now);
  workers->update(now + std::chrono::seconds(2));
  CHECK(workers.place_of(1) == "invited");
  CHECK(workers.place_of(1) == "overdue");
}

TEST_CASE("regrouping: a worker that sees other data than the ranks is dismissed") {
  Workers workers(Nodes{{1, 0}, {1, 0}});
  workers->lose_node(1, "with beta");
  CHECK(workers.place_of(0) == "lost");
  workers->ask(0, {.step = 5, .inputs = 77});
  workers->update();
  CHECK(workers.place_of(0) == "0/1");
  workers->add_node(1, "10.0.0.3");
  SECTION("other data") {
    workers->ask(1, {.inputs = 78});
    workers->update();
    CHECK(workers.place_of(1) == "differs");
    CHECK(workers.place_of(0) == "none");
  }
  SECTION("the same") {
    workers->ask(1, {.inputs = 77});
    workers->update();
    CHECK(workers.place_of(0) == "invited");
  }
}

TEST_CASE("regrouping: a worker that was lost is started again, and joins after a step") {
  using enum GroupRequest::Kind;
  Workers workers(4);
  workers->lose(1, "killed by SIGKILL");
  for (const int worker : {0, 2, 3}) workers.ask(worker, 5);
  for (const int worker : {0, 2}) CHECK(workers.place_of(worker).ends_with("/2"));
  CHECK(workers.place_of(3) == "wait");
  workers->take_notes();
  workers->start_again(1, 1);
  CHECK(workers->num_starts(1) == 1);
  CHECK_FALSE(workers->is_replaced(1));
  workers->update();
  CHECK(workers.place_of(0) == "none");  // it is not ready yet
  SECTION("it joins") {
    workers.ask(1, kNoState);
    for (const int worker : {0, 2}) CHECK(workers.place_of(worker) == "invited");
    for (const int worker : {0, 2}) workers.ask(worker, 9, Changing);
    const auto answer = workers.answer_to(1);
    REQUIRE(answer);
    CHECK(answer->world_size == 4);
    CHECK(answer->loss.spares == std::vector<int>{1, 3});
    CHECK(workers->take_notes() ==
          std::vector<std::string>{"2 ranks joined: continuing with 4 ranks"});
    workers->lose(1, "killed by SIGKILL");  // again
    for (const int worker : {0, 2, 3}) workers.ask(worker, 12);
    CHECK(workers->is_replaced(1));
    workers->start_again(1, 2);
    CHECK(workers->num_starts(1) == 2);
  }
  SECTION("it is lost before: the others keep their group") {
    CHECK(workers->lose(1, "exited with code 78"));
    CHECK(workers->is_replaced(1));
    CHECK(workers->take_notes() ==
          std::vector<std::string>{"a spare was lost, exited with code 78"});
    workers->update();
    CHECK(workers.place_of(0) == "none");
  }
  SECTION("the job ends meanwhile") {
    for (const int worker : {0, 2}) CHECK(workers->leave(worker));
    workers->start_again(1, 2);
    CHECK(workers.place_of(1) == "end");  // of the first start
    CHECK(workers.place_of(1) == "end");
  }
}

TEST_CASE("regrouping: a worker that is started again refills the spares") {
  Workers workers(2, 1);
  workers.ask(2, kNoState);
  workers->lose(0, "killed by SIGKILL");
  workers.ask(1, 5);
  CHECK(workers.place_of(1) == "0/2");
  CHECK(workers.place_of(2) == "1/2");
  workers->take_notes();
  workers->start_again(0, 1);
  workers.ask(0, kNoState);
  CHECK(workers.place_of(1) == "none");
  CHECK(workers->take_notes() == std::vector<std::string>{"a spare is ready"});
  workers->lose(1, "killed by SIGKILL");
  workers.ask(2, 9);
  CHECK(workers.place_of(2) == "0/2");
  CHECK(workers.place_of(0) == "1/2");
}

TEST_CASE("regrouping: another coordinator knows how often workers were started") {
  const Nodes nodes{{1, 0, "10.0.0.1"}, {2, 0, "10.0.0.2"}};
  Workers old(nodes);
  old->lose(2, "killed by SIGKILL");
  for (const int worker : {0, 1}) old.ask(worker, 5);
  JobState before, after;
  old->save(before);
  old->start_again(2, 1);
  old->save(after);
  for (const auto& state : {before, after}) {
    Workers next(nodes);
    next->restore(state);
    next->start_again(2, 1);  // repeated
    next.ask(2, kNoState);
    CHECK(next->num_starts(2) == 1);
    CHECK_FALSE(next->is_replaced(2));
    next->start_again(2, 1);
    CHECK(next->lose_node(0, "with alpha"));
    CHECK(next.place_of(1) == "lost");
    next.ask(1, 9);
    CHECK(next.place_of(1) == "0/2");
    CHECK(next.place_of(2) == "1/2");
  }
}
