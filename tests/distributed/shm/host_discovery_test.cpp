#include "distributed/shm/host_discovery.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/distributed/shm/host_ranks.h"

using namespace lockstep;
using namespace lockstep::distributed;
using namespace lockstep::distributed::shm;

namespace {

std::vector<std::string> reasons_of(const std::vector<std::string>& hosts) {
  InMemoryStore store;
  std::vector<std::string> reasons(hosts.size());
  const auto errors = run_threads(static_cast<int>(hosts.size()), [&](int rank) {
    const auto i = static_cast<size_t>(rank);
    const auto found = discover_host_group(
        store, {.rank = rank, .num_ranks = static_cast<int>(hosts.size()), .host = hosts[i]});
    reasons[i] = found.group ? "together" : found.reason;
  });
  for (const auto& error : errors) CHECK_FALSE(error);
  return reasons;
}

int open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<int>(std::distance(begin(files), end(files)));
}

}  // namespace

TEST_CASE("shared memory: ranks with the same host identity form a group") {
  CHECK(reasons_of({"a", "a", "a"}) == std::vector<std::string>(3, "together"));
  CHECK_FALSE(host_identity().empty());
}

TEST_CASE("shared memory: a rank on another host prevents the group, with the same reason on all") {
  const std::string reason = "rank 2 is on another host than rank 0, or in another container";
  CHECK(reasons_of({"a", "a", "b"}) == std::vector<std::string>(3, reason));
  CHECK(reasons_of({"", ""})[0] ==
        "rank 1 is on another host than rank 0, or in another container");
}

TEST_CASE("shared memory: a segment is validated when it is opened") {
  const auto bytes = Group::segment_bytes(2);
  auto segment = Segment::create(bytes);
  CHECK_NOTHROW(Segment::open(::getpid(), segment.fd(), bytes));
  CHECK_THROWS_WITH(Segment::open(::getpid(), segment.fd(), bytes + 4096),
                    Catch::Contains("is not the shared memory of this group"));
  CHECK_THROWS_WITH(Segment::open(::getpid(), 0, bytes), Catch::Contains("/fd/0"));
  CHECK_THROWS_WITH(Segment::open(::getpid(), 9999, bytes), Catch::Contains("cannot open"));
}

TEST_CASE("shared memory: a segment has no name, and no descriptor after all have mapped it") {
  const auto before = open_files();
  std::string maps;
  run_group(3, [&](Group& group) {
    const auto buffer = group.allocate(size_t{1} << 20, soon());
    group.barrier(soon());
    std::ifstream file("/proc/self/maps");
    if (group.rank() == 0) maps.assign(std::istreambuf_iterator<char>(file), {});
    group.barrier(soon());
  });
  CHECK(open_files() == before);
  CHECK_THAT(maps, Catch::Contains("/memfd:lockstep (deleted)") && !Catch::Contains("/dev/shm/"));
}
