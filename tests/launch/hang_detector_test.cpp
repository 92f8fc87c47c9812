#include "launch/hangs/hang_detector.h"

#include <catch2/catch.hpp>

using namespace lockstep;
using namespace lockstep::launch;
using Catch::Matchers::StartsWith;

namespace {

// Rank 1 of node 1 has not entered the 12th operation, in which rank 0 of node 0 waits.
struct Hang {
  std::map<int, NodeStatus> by_node() const {
    RankView waits, culprit;
    waits.host = "node0";
    waits.progress = {.rank = 0, .pid = 100, .phase = Phase::Backward, .step = 119};
    waits.progress.operations = 12;
    waits.progress.in_operation = true;
    waits.progress.operation = "gradient all_reduce";
    waits.progress.idle_s = waited_s;
    waits.progress.warn_after_s = 3;
    waits.progress.longest_step_s = 0.1;
    waits.progress.timeout_s = 600;
    culprit = waits;
    culprit.host = "node1";
    culprit.stacks = stacks;
    culprit.progress.rank = 1;
    culprit.progress.operations = 11;
    culprit.progress.in_operation = false;
    culprit.progress.phase = Phase::DataWait;
    return {{0, {.ranks = {waits}}}, {1, {.ranks = {culprit}}}};
  }

  double waited_s = 4;
  std::string stacks;
};

}  // namespace

TEST_CASE("hang: stacks of the lagging rank are requested once, and reported when they arrive") {
  HangDetector detector;
  Hang hang;
  const auto request = detector.judge(hang.by_node());
  REQUIRE(request);
  CHECK(request->ranks == std::vector{1});
  CHECK_FALSE(request->dump);
  CHECK_FALSE(detector.judge(hang.by_node()));
  CHECK(detector.unresolved().empty());
  hang.stacks = "    read_batch\n";
  CHECK_FALSE(detector.judge(hang.by_node()));
  const auto notes = detector.take_notes();
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], StartsWith("warning: rank 1 (node1") && Catch::Contains("read_batch"));
  CHECK_THAT(detector.unresolved(), StartsWith("rank 1 (node1"));
  // Reported again only after it has lasted ten times as long.
  hang.waited_s = 39;
  detector.judge(hang.by_node());
  CHECK(detector.take_notes().empty());
  hang.waited_s = 41;
  detector.judge(hang.by_node());
  CHECK(detector.take_notes().size() == 1);
}

TEST_CASE("hang: a dump is requested before the ranks time out, and the culprit is kept") {
  HangDetector detector;
  Hang hang{.waited_s = 571, .stacks = "    read_batch\n"};
  detector.judge(hang.by_node());
  const auto request = detector.judge(hang.by_node());
  REQUIRE(request);
  CHECK(request->dump);
  CHECK_THAT(detector.take_notes().back(), StartsWith("error: rank 1 (node1"));
  CHECK_FALSE(detector.judge(hang.by_node()));
  LaunchReport attempt;
  attempt.workers = {{.rank = 0, .pid = 100}, {.rank = 1, .node_rank = 1, .pid = 100}};
  detector.explain(attempt);
  CHECK(attempt.last_step == 119);
  CHECK(attempt.workers[0].hang.empty());
  CHECK_THAT(attempt.workers[1].hang, StartsWith("kept the others waiting until they gave up"));
}

TEST_CASE("hang: the culprit is kept by its process if the ranks have changed") {
  HangDetector detector;
  auto by_node = Hang{.waited_s = 571, .stacks = "    read_batch\n"}.by_node();
  by_node[1].ranks[0].progress.pid = 30;  // was rank 2, until rank 1 was lost
  for (int i = 0; i < 2; ++i) detector.judge(by_node);
  LaunchReport attempt;
  attempt.workers = {{.rank = 0, .pid = 100},
                     {.rank = 1, .node_rank = 1, .pid = 20},
                     {.rank = 2, .node_rank = 1, .pid = 30}};
  detector.explain(attempt);
  CHECK(attempt.workers[0].hang.empty());
  CHECK(attempt.workers[1].hang.empty());
  CHECK_THAT(attempt.workers[2].hang, StartsWith("kept the others waiting until they gave up"));
}

TEST_CASE("hang: it is reported when the ranks continue, and a new attempt resets the state") {
  HangDetector detector;
  Hang hang{.stacks = "    read_batch\n"};
  for (int i = 0; i < 2; ++i) detector.judge(hang.by_node());
  detector.take_notes();
  SECTION("a rank that only timed out has not continued") {
    hang.waited_s = 0;
    CHECK_FALSE(detector.judge(hang.by_node()));
    CHECK(detector.take_notes().empty());
    CHECK_FALSE(detector.unresolved().empty());
  }
  SECTION("they continue") {
    auto by_node = hang.by_node();
    by_node[1].ranks[0].progress.operations = 13;
    by_node[0].ranks[0].progress.idle_s = 0;
    CHECK_FALSE(detector.judge(by_node));
    CHECK(detector.take_notes() == std::vector<std::string>{"the ranks continue"});
    CHECK(detector.unresolved().empty());
  }
  SECTION("another attempt") {
    detector.begin_attempt();
    CHECK(detector.unresolved().empty());
    LaunchReport attempt;
    detector.explain(attempt);
    CHECK(attempt.last_step == 0);
    CHECK(detector.judge(hang.by_node()));
  }
}
