// What ranks request in the votes of steps.
#include "trainer/loop/stop_controller.h"

#include <catch2/catch.hpp>

#include "tests/temporary_directory.h"

using namespace lockstep;
using namespace lockstep::trainer;

TEST_CASE("stop controller: an invitation is not lost in a vote that is not applied") {
  const auto world = World::connect({.device = DeviceChoice::Cpu});
  const TemporaryDirectory directory;
  const SlowRanksConfig slow_ranks;
  int num_invitations = 0;
  StopController stop(*world, directory.path(), nullptr, false, slow_ranks,
                      [&] { return std::exchange(num_invitations, 0) > 0; });
  CHECK((stop.poll() & kInvited) == 0);
  num_invitations = 1;
  CHECK((stop.poll() & kInvited) != 0);  // Trainer::verify_finite(), before a checkpoint
  CHECK_FALSE(stop.is_leaving());
  stop.agree(stop.poll());  // of the next step
  CHECK(stop.is_leaving());
  stop.stay();
  CHECK_FALSE(stop.is_leaving());
  CHECK((stop.poll() & kInvited) == 0);
}
