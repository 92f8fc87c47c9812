// Options of the rendezvous: one launcher serves an endpoint, the others connect to it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::launch {

// A setting that must be the same on every node, e.g. {"the run file", "<digest>"}.
struct Agreement {
  std::string what, value;
};

// Longer values are not shown when they differ, so digests can be compared instead.
inline constexpr size_t kMaxShownValueLength = 40;

struct RendezvousOptions {
  int min_nodes = 1, max_nodes = 1;
  std::string host;  // of the endpoint: a name or a numeric address
  int port = 0;
  // Number of this node, if the user sets it; nullopt: by arrival, the coordinator first.
  std::optional<int> node_rank;
  // Whether this node serves the endpoint; nullopt: if the endpoint's address is local.
  std::optional<bool> serves;
  // Numeric address at which other nodes reach this one; empty: that of its connection.
  std::string local_addr;
  std::string token;  // the job's secret; may be empty on loopback only
  std::vector<Agreement> agreements;

  // torchrun's defaults.
  std::chrono::milliseconds join_timeout = std::chrono::minutes(10);  // until min_nodes joined
  std::chrono::milliseconds last_call = std::chrono::seconds(30);     // then for more nodes
  std::chrono::milliseconds keep_alive = std::chrono::seconds(5);
  int keep_alive_attempts = 3;  // a node that is silent for this many intervals is lost
  // How long a disconnected node tries to reconnect.
  std::chrono::milliseconds read_timeout = std::chrono::seconds(60);

  std::chrono::milliseconds silence_timeout() const { return keep_alive * keep_alive_attempts; }
};

// Throws Config if numbers are out of range or contradict each other, or if an endpoint that is not
// loopback has no token.
void verify(const RendezvousOptions& options);

struct NodeNames {
  std::string newcomer, server;
};

// Throws Config, naming the first setting that differs. Long values (digests) are not shown.
void require_same(const std::vector<Agreement>& servers, const std::vector<Agreement>& newcomers,
                  const NodeNames& names);

}  // namespace lockstep::launch
