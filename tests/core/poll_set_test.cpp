#include "core/system/poll_set.h"

#include <signal.h>
#include <sys/time.h>

#include <catch2/catch.hpp>

#include "core/system/file_descriptor.h"

using namespace lockstep;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST_CASE("poll until: the number of ready descriptors, or 0 at the deadline") {
  const auto pipe = make_pipe();
  pollfd request{.fd = pipe.read_end.get(), .events = POLLIN, .revents = 0};
  CHECK(poll_until({&request, 1}, Clock::now() - 1s) == 0);
  REQUIRE(::write(pipe.write_end.get(), "x", 1) == 1);
  CHECK(poll_until({&request, 1}, Clock::now() - 1s) == 1);
  CHECK(poll_until({&request, 1}, std::nullopt) == 1);
}

TEST_CASE("poll until: signals do not end it") {
  struct sigaction previous {
  }, counting{};
  static volatile sig_atomic_t num_signals = 0;
  counting.sa_handler = [](int) { num_signals = num_signals + 1; };
  REQUIRE(::sigaction(SIGALRM, &counting, &previous) == 0);
  const itimerval often{.it_interval = {.tv_sec = 0, .tv_usec = 1000},
                        .it_value = {.tv_sec = 0, .tv_usec = 1000}};
  REQUIRE(::setitimer(ITIMER_REAL, &often, nullptr) == 0);
  const auto pipe = make_pipe();
  pollfd request{.fd = pipe.read_end.get(), .events = POLLIN, .revents = 0};
  const auto deadline = Clock::now() + 50ms;
  const int ready = poll_until({&request, 1}, deadline);
  const auto end = Clock::now();
  const itimerval off{};
  ::setitimer(ITIMER_REAL, &off, nullptr);
  ::sigaction(SIGALRM, &previous, nullptr);
  CHECK(ready == 0);
  CHECK(end >= deadline);
  CHECK(num_signals > 0);
}
