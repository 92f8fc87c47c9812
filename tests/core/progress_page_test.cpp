#include "core/system/progress_page.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>

#include "lockstep/error.h"

using namespace lockstep;
using namespace std::chrono_literals;

TEST_CASE("progress page: the launcher reads what a rank writes") {
  const auto memory = ProgressPage::make_shared_memory();
  ProgressPage launcher(memory.get());
  ProgressPage rank(memory.get());
  rank.begin(3);
  rank.set_limits(2s, 90s);
  rank.enter(Phase::Backward);
  rank.set_step(7, 100);
  CHECK_FALSE(launcher.snapshot().has_ended_step);
  rank.end_step(8, 100);
  CHECK(launcher.snapshot().step == 8);
  CHECK(launcher.snapshot().has_ended_step);
  rank.set_step(7, 100);
  rank.begin_operation("all_reduce 'x'", "Float [10]");
  rank.set_bucket_names("a, b\nc\n");
  rank.begin_buckets();
  rank.start_bucket();
  rank.start_bucket();
  rank.finish_bucket();
  const auto seen = launcher.snapshot();
  CHECK(seen.rank == 3);
  CHECK(seen.pid == ::getpid());
  CHECK(seen.phase == Phase::Backward);
  CHECK(seen.step == 7);
  CHECK(seen.total_steps == 100);
  CHECK(seen.operations == 1);
  CHECK(seen.in_operation);
  CHECK(seen.operation == "all_reduce 'x'");
  CHECK(seen.detail == "Float [10]");
  CHECK(seen.buckets_started == 2);
  CHECK(seen.buckets_finished == 1);
  CHECK(seen.bucket_names == "a, b\nc\n");
  CHECK(seen.warn_after_s == 2);
  CHECK(seen.timeout_s == 90);
  rank.end_operation();
  CHECK_FALSE(launcher.snapshot().in_operation);
  CHECK(launcher.failure().empty());
  rank.report_failure("the disk is full");
  rank.report_failure("and so this fails too");
  CHECK(launcher.failure() == "the disk is full");
  launcher.set_launch_signal(2);
  CHECK(rank.launch_signal() == 2);
}

TEST_CASE("progress page: it outlives the rank and has the time of the last change") {
  const auto memory = ProgressPage::make_shared_memory();
  const auto child = ::fork();
  if (child == 0) {
    ProgressPage rank(memory.get());
    rank.begin(1);
    rank.enter(Phase::DataWait);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  const ProgressPage launcher(memory.get());
  const auto first = launcher.snapshot();
  CHECK(first.phase == Phase::DataWait);
  CHECK(first.idle_s >= 0);
  CHECK(launcher.snapshot().idle_s >= first.idle_s);
}

TEST_CASE("progress page: long texts are truncated, readers never see torn text") {
  ProgressPage page;
  page.begin_operation(std::string(1000, 'x'));
  CHECK(page.snapshot().operation == std::string(128, 'x'));
  bool whole = true;
  {
    std::jthread writer([&](const std::stop_token& stop) {
      for (int i = 0; !stop.stop_requested(); ++i)
        page.begin_operation(std::string(static_cast<size_t>(1 + i % 100), i % 2 ? 'a' : 'b'));
    });
    for (int i = 0; i < 20'000; ++i) {
      const auto text = page.snapshot().operation;
      whole = whole && text.find_first_not_of(text.empty() ? 'x' : text[0]) == std::string::npos;
    }
  }
  CHECK(whole);
}

TEST_CASE("progress page: a request for stack traces wakes the waiting thread") {
  ProgressPage page;
  const auto seen = page.requested();
  CHECK_FALSE(page.wait_for_request(seen, 1ms));
  std::jthread answerer([&] {
    if (page.wait_for_request(seen, 60s)) page.publish_stacks(page.requested(), "main\n");
  });
  const auto request = page.request_stacks();
  CHECK(page.wait_for_stacks(request, 60s));
  CHECK(page.stacks() == "main\n");
}

TEST_CASE("progress page: memory of a different size is rejected") {
  FILE* file = ::tmpfile();
  CHECK_THROWS_AS(ProgressPage(::fileno(file)), Error);
  ::fclose(file);
}
