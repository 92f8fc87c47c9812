// Failures of the store through which the ranks connect.
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>

#include "core/system/file_descriptor.h"
#include "tests/distributed/run_ranks.h"
#include "tests/failing_calls.h"

namespace lockstep::distributed {
namespace {

WorldOptions served_at(uint16_t port) {
  return {.rank = 0,
          .world_size = 2,
          .local_world_size = 2,
          .rendezvous = TcpRendezvous{.port = port},
          .device = DeviceChoice::Cpu,
          .timeout = std::chrono::seconds(1)};
}

}  // namespace

TEST_CASE("store: a thread that the system refuses is not reported as a busy port") {
  const auto error = without_new_threads([] { World::connect(served_at(0)); });
  if (!error) {
    WARN("no seccomp filter: not tested");
    return;
  }
  const auto text = text_of(*error);
  CHECK_THAT(text, Catch::StartsWith("rank 0 cannot serve the rendezvous on port 0: cannot start a "
                                     "thread: Resource temporarily unavailable; "));
  CHECK_THAT(text, !Catch::Contains("in use"));
}

TEST_CASE("store: a busy port is reported as such") {
  const FileDescriptor taken(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(taken.get(), plain, size) == 0);
  REQUIRE(::listen(taken.get(), 1) == 0);
  REQUIRE(::getsockname(taken.get(), plain, &size) == 0);
  const auto port = ntohs(address.sin_port);
  CHECK_THROWS_WITH(World::connect(served_at(port)),
                    Catch::StartsWith("rank 0 cannot serve the rendezvous on port " +
                                      std::to_string(port) + ": is it in use? ("));
}

}  // namespace lockstep::distributed
