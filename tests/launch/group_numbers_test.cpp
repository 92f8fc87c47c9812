// Groups that follow each other: their numbers, workers that do not ask, groups that do not connect.
#include <catch2/catch.hpp>

#include "tests/launch/regrouping_workers.h"

using namespace lockstep;
using namespace lockstep::launch;

TEST_CASE("regrouping: groups are numbered, and a loss is one of a group") {
  Workers workers(Nodes{{2, 0, "a"}, {2, 0, "b"}});
  const auto number_of = [&](int worker, GroupAnswer::Kind kind) -> int64_t {
    const auto answer = workers.answer_to(worker);
    return answer && answer->kind == kind ? answer->group : -1;
  };
  workers->lose(3, "killed");
  CHECK(number_of(0, GroupAnswer::Kind::Lost) == 0);
  for (int worker = 0; worker < 3; ++worker) workers.ask(worker, 5);
  CHECK(number_of(0, GroupAnswer::Kind::Join) == 1);
  workers->lose(1, "killed");  // before rank 0 has entered the group
  CHECK(number_of(0, GroupAnswer::Kind::Lost) == 1);
  workers.ask(0, 5);
  CHECK(number_of(0, GroupAnswer::Kind::Join) == 2);
}

TEST_CASE("regrouping: a worker that does not ask is killed, and the others continue") {
  using std::chrono::milliseconds;
  Workers workers(4);
  const auto begin = Regrouping::Clock::now();
  const GroupRequest request{.step = 5, .patience_ms = 1000};
  workers->ask(0, {.step = 5}, begin);  // waits for any time
  workers->ask(1, request, begin);
  workers->update(begin + milliseconds(1500));
  CHECK(workers.place_of(2) == "none");  // no rank was lost
  CHECK(workers.place_of(0) == "refused");
  CHECK(workers.place_of(1) == "refused");
  workers->lose(3, "killed");
  workers->ask(0, {.step = 5}, begin);
  workers->ask(1, request, begin);
  workers->update(begin + milliseconds(999));
  CHECK(workers.place_of(2) == "none");
  workers->update(begin + milliseconds(1000));
  CHECK(workers.place_of(2) == "overdue");
  workers->update(begin + milliseconds(2000));
  CHECK(workers.place_of(2) == "none");
  CHECK(workers->take_notes().back() ==
        "rank 2 (of 4) is killed: the others have waited for it for 1 s to form a new group");
  workers->ask(2, {.step = 5}, begin + milliseconds(2000));  // too late
  workers->update(begin + milliseconds(2000));
  CHECK(workers.place_of(0) == "none");
  workers->lose(2, "killed by SIGKILL");
  workers->update(begin + milliseconds(2001));
  const auto answer = workers.answer_to(0);
  REQUIRE(answer);
  CHECK(answer->world_size == 2);
  CHECK(answer->loss.ranks.back().how == "killed because the others waited for it");
}

TEST_CASE("regrouping: a group that could not connect is formed again, a few times") {
  constexpr auto kPatience = std::chrono::hours(1);
  Workers workers(Nodes{{1, 0, "a"}, {2, 0, "b"}}, kPatience);
  workers->lose(2, "killed");
  workers.ask(0, 5);
  workers.ask(1, 5);
  CHECK(workers.place_of(0) == "lost");
  CHECK(workers.place_of(1) == "lost");
  for (int repeat = 0; repeat <= 3; ++repeat) {
    CHECK(workers.place_of(0) == "0/2");
    CHECK(workers.place_of(1) == "1/2");
    workers.ask(0, 5);
    CHECK(workers.place_of(0) == "none");
    workers.ask(1, 5);
  }
  CHECK(workers.place_of(0) == "none");
  CHECK(workers->take_notes().back() == "not all ranks have connected: continuing with 2 ranks");
  workers->update(Regrouping::Clock::now() + kPatience);
  CHECK(workers.place_of(0) == "refused");
  CHECK(workers.place_of(1) == "refused");
}

TEST_CASE("regrouping: a group that has trained is not formed again") {
  constexpr auto kPatience = std::chrono::hours(1);
  Workers workers(Nodes{{1, 0, "a"}, {1, 0, "b"}}, kPatience);
  workers->lose(1, "killed");
  workers.ask(0, 5);
  CHECK(workers.place_of(0) == "lost");
  CHECK(workers.place_of(0) == "0/1");
  workers.ask(0, 6);
  CHECK(workers.place_of(0) == "none");
}
