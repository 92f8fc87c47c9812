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
