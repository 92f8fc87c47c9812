#include "launch/hangs/stack_reporter.h"

#include <pthread.h>

#include <catch2/catch.hpp>
#include <condition_variable>
#include <mutex>

using namespace lockstep;
using namespace lockstep::launch;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

TEST_CASE("stacks: a thread that waits is shown where it waits") {
  ProgressPage page;
  std::mutex mutex;
  std::condition_variable_any condition;
  std::jthread worker([&](const std::stop_token& stop) {
    ::pthread_setname_np(::pthread_self(), "lockstep-data");
    std::unique_lock lock(mutex);
    condition.wait(lock, stop, [] { return false; });
  });
  {
    const StackReporter reporter(page);
    for (int i = 0; i < 3; ++i) {
      const auto request = page.request_stacks();
      REQUIRE(page.wait_for_stacks(request, 60s));
    }
    CHECK_THAT(page.stacks(), Contains("training thread\n"));
    // Its name and its wait may come later than the first question.
    const auto shows = [&](const char* text) {
      return page.stacks().find(text) != std::string::npos;
    };
    const auto latest = std::chrono::steady_clock::now() + 60s;
    while ((!shows("lockstep-data\n") || !shows("wait")) &&
           std::chrono::steady_clock::now() < latest)
      page.wait_for_stacks(page.request_stacks(), 60s);
    CHECK_THAT(page.stacks(), Contains("lockstep-data\n") && Contains("wait"));
  }
  const auto request = page.request_stacks();  // nobody answers any more, and nobody dies of it
  CHECK_FALSE(page.wait_for_stacks(request, 10ms));
}
