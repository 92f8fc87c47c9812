#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <set>

#include "core/system/file_descriptor.h"
#include "tests/tracking/artifacts/sample_store.h"

using namespace lockstep;
using namespace lockstep::tracking;
namespace fs = std::filesystem;

namespace {

constexpr int kMaxVersionsOfChild = 10000;

// Publishes new versions until it is killed. True if it was killed, rather than finished or failed.
bool publish_until_killed(const SampleStore& lab, int round, std::chrono::nanoseconds after) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      for (int i = 0; i < kMaxVersionsOfChild; ++i)
        lab.publish(std::string(200'000, 'x') + std::to_string(round) + "," + std::to_string(i),
                    {"best"});
      ::_exit(0);
    } catch (const std::exception&) {
      ::_exit(1);
    }
  }
  const FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  pollfd waiting{.fd = process.get(), .events = POLLIN, .revents = 0};
  const timespec patience{.tv_sec = after.count() / 1'000'000'000,
                          .tv_nsec = after.count() % 1'000'000'000};
  ::ppoll(&waiting, 1, &patience, nullptr);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

}  // namespace

TEST_CASE("artifacts: a kill at any point leaves complete versions, and gc removes the rest") {
  SampleStore lab;
  const auto start = std::chrono::steady_clock::now();
  lab.publish(std::string(200'000, 'x'), {"best"});
  const auto usual = std::chrono::steady_clock::now() - start;
  int before = 1;
  for (int round = 0; round < 25 || (before < 5 && round < 200); ++round) {
    CHECK(publish_until_killed(lab, round, usual * (round + 1) / 8));
    const auto all = lab.store.list();
    REQUIRE(!all.empty());
    CHECK(static_cast<int>(all.size()) >= before);
    before = static_cast<int>(all.size());
    CHECK(lab.store.find("net").version == all.back().version);
    CHECK(lab.store.find("net:best").version == all.back().version);
    CHECK(all.back().version == before);
    CHECK(lab.store.verify(all.back()).empty());
  }
  CHECK(before >= 5);
  lab.store.gc(false);
  CHECK(lab.store.gc(true).paths.empty());
  std::set<std::string> needed;
  for (const auto& artifact : lab.store.list()) {
    CHECK(lab.store.verify(artifact).empty());
    for (const auto& file : artifact.files) needed.insert(file.sha256);
  }
  std::set<std::string> there;
  for (const auto& entry : fs::recursive_directory_iterator(lab.store.directory() / "blobs"))
    if (!entry.is_directory()) there.insert(entry.path().filename().string());
  CHECK(there == needed);
  CHECK(lab.publish("after all").version == before + 1);
}

TEST_CASE("artifacts: a full disk leaves existing versions unchanged") {
  SampleStore lab;
  const auto made = lab.publish("one");
  write_text(lab.path("big"), std::string(200'000, 'x'));
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100'000, 100'000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(9);
    const auto error = error_of([&] {
      lab.store.publish({.name = "net", .type = "model", .files = {{"w", lab.path("big")}}});
    });
    ::_exit(error.starts_with("environment: cannot write ") ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(lab.store.find("net").digest == made.digest);
  CHECK(lab.store.gc(true).paths.empty());
}
