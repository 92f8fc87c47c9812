#include "launch/hangs/stack_reporter.h"

#include <pthread.h>

#include <catch2/catch.hpp>
#include <condition_variable>
#include <mutex>

using namespace lockstep;
using namespace lockstep::launch;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

TEST_CASE("stacks: a waiting thread is shown with the function in which it waits") {
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
    // Its name and its wait may be set after the first request.
    const auto shows = [&](const char* text) {
      return page.stacks().find(text) != std::string::npos;
    };
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while ((!shows("lockstep-data\n") || !shows("wait")) &&
           std::chrono::steady_clock::now() < deadline)
      page.wait_for_stacks(page.request_stacks(), 60s);
    CHECK_THAT(page.stacks(), Contains("lockstep-data\n") && Contains("wait"));
  }
  const auto request = page.request_stacks();  // without a reporter: no response, no crash
  CHECK_FALSE(page.wait_for_stacks(request, 10ms));
}
