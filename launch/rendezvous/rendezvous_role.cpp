#include "launch/rendezvous/rendezvous_role.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/system/descriptor_limit.h"
#include "core/system/local_address.h"
#include "launch/protocol/address.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

constexpr uint64_t kReservedDescriptors = 1024;

// The coordinator needs a descriptor per node.
void raise_limit_for_nodes(int num_nodes) {
  raise_descriptor_limit(kReservedDescriptors + 2 * static_cast<uint64_t>(num_nodes));
}

// The endpoint's name resolves to loopback here, but not on other nodes (Debian's 127.0.1.1).
// Without a token only loopback is safe.
bool is_loopback_only_here(const RendezvousOptions& options) {
  return !options.token.empty() && is_name_for_loopback(options.host);
}

// The listening socket if this node serves, else a closed one. `is_taken`: the endpoint is on this
// host, and another process (a launcher or not) uses its port.
FileDescriptor open_endpoint(const RendezvousOptions& options, bool& is_taken) {
  if (options.serves == false) return {};
  if (is_loopback_only_here(options)) {
    auto listener = try_listen_everywhere(options.port);
    is_taken = listener.reason == EADDRINUSE;
    if (is_taken && !options.serves) return {};
    return listener.fd ? std::move(*listener.fd) : listen_everywhere(options.port);
  }
  std::vector<SocketAddress> addresses;
  try {
    addresses = resolve(options.host, options.port);
  } catch (const Error&) {
    // Unless this node must serve, the client retries until the name can be resolved.
    if (!options.serves) return {};
    // A pod whose own name cannot be resolved yet: others retry until it can.
    if (options.local_addr.empty()) throw;
    return listen_everywhere(options.port);
  }
  for (const auto& address : addresses) {
    auto listener = try_listen(address);
    if (listener.fd) return std::move(*listener.fd);
    if (listener.reason == EADDRNOTAVAIL) continue;
    is_taken = listener.reason == EADDRINUSE;
    if (is_taken && !options.serves) return {};
    throw cannot_listen(address, listener.reason);
  }
  // The address is forwarded to this node.
  return options.serves ? listen_everywhere(options.port) : FileDescriptor();
}

std::array<Connection, 2> make_inner_connection() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    throw errno_error("cannot create a socket pair");
  std::array<Connection, 2> connections{Connection(FileDescriptor(ends[0])),
                                        Connection(FileDescriptor(ends[1]))};
  connections[0].trust(Side::Coordinator, "", {});
  connections[1].trust(Side::Node, "", {});
  return connections;
}

bool can_lose_coordinator(const LaunchOptions& options) {
  return options.continues_on_loss && options.rendezvous.max_nodes > 1 && !options.runs_dir.empty();
}

CoordinatorOptions coordinator_options(const LaunchOptions& options) {
  return {.rendezvous = options.rendezvous,
          .restarts = {.max_restarts = options.max_restarts,
                       .window = options.restart_window,
                       .delay = options.restart_delay},
          .run_id = options.run_id,
          .host = options.host,
          .continues_on_loss = options.continues_on_loss,
          .runs_dir = can_lose_coordinator(options) ? options.runs_dir : "",
          .moved = moved_rendezvous(options)};
}

// The address at which other nodes reach the coordinator's node. Empty: the coordinator derives it
// from their connections.
std::string own_address(const FileDescriptor& listener, const RendezvousOptions& options) {
  if (!options.local_addr.empty() || !listener.is_open()) return options.local_addr;
  const auto address = local_address(listener.get());
  if (!address.is_any()) return address.host();
  if (is_loopback_only_here(options)) return "";
  return resolve(options.host, 0).front().host();
}

}  // namespace

std::optional<MovedRendezvous> moved_rendezvous(const LaunchOptions& options) {
  if (!can_lose_coordinator(options)) return std::nullopt;
  return MovedRendezvous(options.runs_dir, {options.rendezvous.host, options.rendezvous.port});
}

RendezvousRole open_rendezvous(const LaunchOptions& options, StatusJudge& judge,
                               const std::optional<Endpoint>& moved_to) {
  const bool is_alone = options.rendezvous.max_nodes == 1;
  bool is_taken = false;
  auto listener =
      is_alone || moved_to ? FileDescriptor() : open_endpoint(options.rendezvous, is_taken);
  RendezvousClientOptions client{.rendezvous = options.rendezvous,
                                 .host = options.host,
                                 .num_workers = options.num_workers,
                                 .num_spares = options.num_spares,
                                 .continues_on_loss = options.continues_on_loss,
                                 .can_lose_coordinator = can_lose_coordinator(options),
                                 .master_addr = options.master_addr,
                                 .master_port = options.master_port,
                                 .endpoint_is_taken = is_taken,
                                 .has_moved = moved_to.has_value()};
  if (moved_to) {
    client.rendezvous.host = moved_to->host;
    client.rendezvous.port = moved_to->port;
  }
  if (!is_alone && !listener.is_open())
    return {.coordinator = nullptr,
            .client = std::make_unique<RendezvousClient>(std::move(client))};
  client.rendezvous.local_addr = own_address(listener, options.rendezvous);
  if (!is_alone) raise_limit_for_nodes(options.rendezvous.max_nodes);
  auto inner = make_inner_connection();
  auto coordinator = coordinator_options(options);
  coordinator.rendezvous = client.rendezvous;
  return {.coordinator = std::make_unique<Coordinator>(std::move(coordinator), std::move(listener),
                                                       std::move(inner[0]), judge),
          .client = std::make_unique<RendezvousClient>(std::move(client), std::move(inner[1]))};
}

std::unique_ptr<Coordinator> replace_coordinator(const LaunchOptions& options,
                                                 const Takeover& takeover, RendezvousClient& client,
                                                 StatusJudge& judge) {
  auto coordinator = coordinator_options(options);
  const auto& own = takeover.job.nodes[static_cast<size_t>(takeover.node)];
  coordinator.rendezvous.host = coordinator.rendezvous.local_addr = own.address;
  coordinator.rendezvous.port = own.port;
  coordinator.run_id = takeover.job.run_id;
  raise_limit_for_nodes(options.rendezvous.max_nodes);
  auto inner = make_inner_connection();
  auto made =
      std::make_unique<Coordinator>(std::move(coordinator), client.take_successor_listener(),
                                    std::move(inner[0]), judge, takeover);
  client.serve(std::move(inner[1]));
  return made;
}

}  // namespace lockstep::launch
