#include "launch/hangs/hang_reporter.h"

#include <unistd.h>

#include <catch2/catch.hpp>

#include "core/system/poll_set.h"
#include "tests/launch/text_of.h"
#include "tests/temporary_directory.h"

using namespace lockstep;
using namespace lockstep::launch;
using Catch::Matchers::Contains;

namespace {

// Two ranks of this node, which publish stacks on command.
class Ranks {
 public:
  Ranks() {
    for (int rank = 0; rank < 2; ++rank) pages_[rank].begin(rank);
    reporter.begin({{4, ::getpid(), &pages_[0]}, {5, ::getpid(), &pages_[1]}}, directory_.path());
  }

  ProgressPage& page(int rank) { return pages_[rank - 4]; }
  void publish(int rank, const std::string& stacks) {
    page(rank).publish_stacks(page(rank).requested(), stacks);
  }
  // As in the launcher's event loop.
  std::vector<RankView> await_views() {
    std::optional<std::vector<RankView>> views;
    poll_until([&] { return (views = reporter.next_views()).has_value(); });
    return views.value();
  }
  std::string await_dump() {
    poll_until([&] {
      reporter.write_due_dump();
      return !reporter.take_notes().empty();
    });
    return text_of(directory_.path() / "hang.txt");
  }

 private:
  template <class Condition>
  static void poll_until(const Condition& condition) {
    const auto deadline = PollSet::Clock::now() + std::chrono::seconds(60);
    while (!condition() && PollSet::Clock::now() < deadline) {
      PollSet polls;
      polls.wake_at(PollSet::Clock::now() + std::chrono::milliseconds(10));
      polls.wait();
    }
  }

  ProgressPage pages_[2];
  TemporaryDirectory directory_;

 public:
  HangReporter reporter{"alpha"};
};

}  // namespace

TEST_CASE("hang: a node reports the state of its ranks at intervals") {
  Ranks ranks;
  const std::string detail(1000, 'x');
  ranks.page(5).begin_operation("step vote", detail);
  const auto views = ranks.await_views();
  REQUIRE(views.size() == 2);
  CHECK(views[0].progress.rank == 4);
  CHECK(views[0].host == "alpha");
  CHECK(views[1].progress.operation == "step vote");
  CHECK(views[1].progress.detail.size() <= 203);
  CHECK_FALSE(ranks.reporter.next_views());
  ranks.reporter.end();
  CHECK(ranks.await_views().empty());
}

TEST_CASE("hang: requested stacks are reported as soon as they arrive") {
  Ranks ranks;
  ranks.await_views();
  ranks.reporter.handle({.ranks = {5, 17}});
  CHECK(ranks.page(4).requested() == 0);
  ranks.publish(5, std::string(5000, 'y'));
  const auto views = ranks.reporter.next_views();
  REQUIRE(views);
  CHECK(views->at(0).stacks.empty());
  CHECK(views->at(1).stacks == std::string(4000, 'y'));
  CHECK_FALSE(ranks.reporter.next_views());
}

TEST_CASE("hang: a dump has all ranks of the node, with the stacks that arrived") {
  Ranks ranks;
  ranks.reporter.handle({.dump = true});
  ranks.publish(4, "    training thread\n");
  CHECK_THAT(ranks.await_dump(),
             Contains("rank 4 (alpha") && Contains("training thread") && Contains("rank 5 (alpha"));
}
