#include "distributed/shm/copying.h"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <future>
#include <numeric>
#include <thread>
#include <vector>

#include "distributed/shm/peers.h"

using namespace lockstep::distributed::shm;

TEST_CASE("copying: both variants copy exactly the given bytes, for any length") {
  alignas(64) std::array<std::byte, 1024> to;
  std::array<std::byte, 1024> from;
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + 1);
  for (const bool nontemporal : {false, true})
    for (const size_t bytes : {0, 1, 15, 16, 17, 64, 255, 1000}) {
      to.fill(std::byte{0});
      copy_to_shared(to.data(), from.data() + 3, bytes, nontemporal);  // unaligned source
      CHECK(std::equal(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(bytes),
                       from.begin() + 3));
      CHECK(std::all_of(to.begin() + static_cast<std::ptrdiff_t>(bytes), to.end(),
                        [](std::byte byte) { return byte == std::byte{0}; }));
    }
}

TEST_CASE("peers: usable cores are the union of the affinity masks of the processes") {
  cpu_set_t usable;
  REQUIRE(::sched_getaffinity(0, sizeof usable, &usable) == 0);
  CHECK(count_usable_cores({::getpid()}) == CPU_COUNT(&usable));
  CHECK(count_usable_cores({}) == 0);
  if (CPU_COUNT(&usable) < 2) return;
  // Affinity is per thread, so a thread stands in for a process.
  std::promise<pid_t> bound;
  std::promise<void> done;
  const std::jthread thread([&] {
    int first = 0;
    while (!CPU_ISSET(first, &usable)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    bound.set_value(::gettid());
    done.get_future().wait();
  });
  const auto pid = bound.get_future().get();
  CHECK(count_usable_cores({pid}) == 1);
  CHECK(count_usable_cores({pid, pid}) == 1);
  CHECK(count_usable_cores({pid, ::getpid()}) == CPU_COUNT(&usable));
  done.set_value();
}
