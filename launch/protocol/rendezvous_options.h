// How the launchers of several nodes meet: one of them serves an endpoint, the others connect.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::launch {

// Something that must be the same on every node, e.g. {"the run file", "<digest>"}.
struct Agreement {
  std::string what, value;
};

struct RendezvousOptions {
  int min_nodes = 1, max_nodes = 1;
  std::string host;  // of the endpoint: a name or a numeric address
  int port = 0;
  // Which node this is, where the user says so; nullopt: in the order of arrival, the server first.
  std::optional<int> node_rank;
  // Whether this node serves the endpoint; nullopt: when the endpoint's address is its own.
  std::optional<bool> serves;
  // Where other nodes reach this one: a numeric address; empty: what it reaches the endpoint from.
  std::string local_addr;
  std::string token;  // the job's secret; may be empty on loopback only
  std::vector<Agreement> agreements;

  // torchrun's defaults.
  std::chrono::milliseconds join_timeout = std::chrono::minutes(10);  // until the least number came
  std::chrono::milliseconds last_call = std::chrono::seconds(30);     // then for more
  std::chrono::milliseconds keep_alive = std::chrono::seconds(5);
  int keep_alive_attempts = 3;  // without a word for that many intervals: lost
  // How long a node that was cut off tries to come back.
  std::chrono::milliseconds read_timeout = std::chrono::seconds(60);

  std::chrono::milliseconds longest_silence() const { return keep_alive * keep_alive_attempts; }
};

// Throws Config for numbers that are out of range or contradict each other, and for an endpoint
// beyond loopback without a token.
void verify(const RendezvousOptions& options);

struct NodeNames {
  std::string newcomer, server;
};

// Throws Config, naming the first thing that differs; long values (digests) are not shown.
void require_same(const std::vector<Agreement>& servers, const std::vector<Agreement>& newcomers,
                  const NodeNames& names);

}  // namespace lockstep::launch
