#include "launch/workers/restart_policy.h"

#include <catch2/catch.hpp>

using namespace lockstep;
using namespace lockstep::launch;
using namespace std::chrono_literals;

namespace {

// Attempts of ten seconds each.
struct Attempts {
  RestartPolicy policy;
  RestartPolicy::Clock::time_point now{};

  // The pause in seconds after an attempt that failed at `step`; -1: no restart is left.
  double fail(int64_t step = 0, std::chrono::seconds lasted = 10s) {
    policy.begin_attempt(now);
    now += lasted;
    const auto delay = policy.restart(now, step);
    return delay ? std::chrono::duration<double>(*delay).count() : -1;
  }
};

}  // namespace

TEST_CASE("restart policy: the pause doubles up to a minute, and progress resets it") {
  Attempts attempts{RestartPolicy({.max_restarts = 100})};
  for (const double pause : {0, 1, 2, 4, 8, 16, 32, 60, 60}) CHECK(attempts.fail() == pause);
  CHECK(attempts.fail(7) == 0);
  CHECK(attempts.fail(7) == 1);
  CHECK(attempts.fail(6) == 2);
  CHECK(attempts.fail(8) == 0);
  // Without a reported step, a long attempt counts as progress.
  CHECK(attempts.fail() == 1);
  CHECK(attempts.fail(0, 60s) == 0);
  for (int i = 0; i < 30; ++i) attempts.fail();
  CHECK(attempts.fail() == 60);
}

TEST_CASE("restart policy: the first pause is set by the user") {
  Attempts never{RestartPolicy({.max_restarts = 100, .delay = 0ms})};
  for (int i = 0; i < 5; ++i) CHECK(never.fail() == 0);
  Attempts longer{RestartPolicy({.max_restarts = 100, .delay = 5min})};
  for (const double pause : {0, 300, 300}) CHECK(longer.fail() == pause);
}

TEST_CASE("restart policy: restarts are limited, per window if one is set") {
  Attempts twice{RestartPolicy({.max_restarts = 2})};
  CHECK(twice.fail(1) == 0);
  CHECK(twice.policy.describe(0ms) == "restart 1 of 2");
  CHECK(twice.fail(1) == 1);
  CHECK(twice.policy.describe(1s) == "restart 2 of 2 in 1 s");
  CHECK(twice.fail(2) == -1);
  CHECK(twice.policy.count() == 2);
  Attempts windowed{RestartPolicy({.max_restarts = 2, .window = 60s})};
  CHECK(windowed.fail(1) == 0);
  CHECK(windowed.fail(2, 55s) == 0);
  CHECK(windowed.fail(3) == 0);  // the first is 65 s ago
  CHECK(windowed.policy.describe(0ms) == "restart 3 (2 of 2 within 60 s)");
  CHECK(windowed.fail(4) == -1);
  Attempts forbidden{RestartPolicy({.max_restarts = 2})};
  forbidden.policy.forbid();
  CHECK(forbidden.fail(1) == -1);
  Attempts resumed{RestartPolicy({.max_restarts = 2})};
  resumed.policy.resume(1);
  CHECK(resumed.fail(1) == 0);
  CHECK(resumed.policy.describe(0ms) == "restart 2 of 2");
  CHECK(resumed.fail(2) == -1);
  Attempts resumed_window{RestartPolicy({.max_restarts = 1, .window = 60s})};
  resumed_window.policy.resume(5);
  CHECK(resumed_window.fail(1) == 0);
  CHECK(resumed_window.policy.count() == 6);
}
