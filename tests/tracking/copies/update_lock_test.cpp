#include "tracking/copies/update_lock.h"

#include <poll.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <future>

#include "lockstep/error.h"
#include "tests/temporary_directory.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

// Answers the first request, and returns what it wants.
UpdateLock::Ids answer(const UpdateLock& lock) {
  for (;;) {
    const auto requests = lock.requests();
    for (const auto& [file, ids] : requests) std::filesystem::remove(file);
    if (!requests.empty()) return requests.begin()->second;
    ::poll(nullptr, 0, 5);
  }
}

}  // namespace

TEST_CASE("the first user of a directory updates it for the others") {
  const TemporaryDirectory directory;
  UpdateLock first(directory.path());
  REQUIRE(first.acquire({"mnist-1"}));
  CHECK(first.requests().empty());
  for (const auto& ids : {UpdateLock::Ids{"mnist-2", "m\"/\n"}, UpdateLock::Ids{}}) {
    auto other = std::async(std::launch::async, [&] {
      UpdateLock second(directory.path());
      const bool has_lock = second.acquire(ids);
      return has_lock || second.is_held();
    });
    CHECK(answer(first) == ids);
    CHECK_FALSE(other.get());
  }
}

TEST_CASE("a user that waits follows one that ends without an answer") {
  const TemporaryDirectory directory;
  auto first = std::make_unique<UpdateLock>(directory.path());
  REQUIRE(first->acquire({}));
  UpdateLock second(directory.path());
  auto other = std::async(std::launch::async, [&] { return second.acquire({"mnist-1"}); });
  while (first->requests().empty()) ::poll(nullptr, 0, 5);
  first.reset();
  CHECK(other.get());
  CHECK(second.requests().empty());  // its own is gone
}

TEST_CASE("waiting can be stopped, and so can an update") {
  const TemporaryDirectory directory;
  UpdateLock first(directory.path()), second(directory.path());
  REQUIRE(first.acquire({}));
  auto other = std::async(std::launch::async, [&] { return second.acquire({}); });
  while (first.requests().empty()) ::poll(nullptr, 0, 5);
  second.stop();
  CHECK_THROWS_WITH(other.get(), "the process ends");
  first.note_progress();
  first.stop();
  CHECK_THROWS_WITH(first.note_progress(), "the process ends");
}

TEST_CASE("a request that is not complete or not valid is none") {
  const TemporaryDirectory directory;
  UpdateLock lock(directory.path());
  REQUIRE(lock.acquire({}));
  std::filesystem::create_directory(directory.path() / ".wanted");
  std::ofstream(directory.path() / ".wanted/1-2.tmp-1") << "[]";
  std::ofstream(directory.path() / ".wanted/1-3") << "[";
  std::ofstream(directory.path() / ".wanted/1-4") << "{\"a\": 1}";
  CHECK(lock.requests().empty());
}
