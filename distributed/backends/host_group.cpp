#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "distributed/backends/backends.h"
#include "distributed/backends/hierarchical_backend.h"
#include "distributed/backends/shm_backend.h"
#include "distributed/shm/host_discovery.h"
#include "lockstep/error.h"

namespace lockstep::distributed {
namespace {

class C10dStore final : public shm::KeyValueStore {
 public:
  C10dStore(c10::intrusive_ptr<c10d::Store> store, std::chrono::milliseconds timeout)
      : store_(std::move(store)), timeout_(timeout) {}

  void set(const std::string& key, const std::string& value) override { store_->set(key, value); }
  std::string get(const std::string& key) override {
    store_->wait({key}, timeout_);
    return store_->get_to_str(key);
  }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  std::chrono::milliseconds timeout_;
};

using Store = c10::intrusive_ptr<c10d::Store>;

Store with_prefix(const Store& store, const std::string& name) {
  return c10::make_intrusive<c10d::PrefixStore>(name, store);
}

// The ranks for which predicate(rank, value) holds, with the value that they set for `key`.
template <class Predicate>
std::vector<int> ranks_where(C10dStore& values, const std::string& key, int world_size,
                             const Predicate& predicate) {
  std::vector<int> ranks;
  for (int rank = 0; rank < world_size; ++rank)
    if (predicate(rank, values.get(fmt::format("{}/{}", key, rank)))) ranks.push_back(rank);
  return ranks;
}

int index_of(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
}

// The ranks of a host.
struct Host {
  c10::intrusive_ptr<ShmBackend> backend;  // null: one rank
  int leader = 0;                          // its lowest rank
};

// Collective.
Host find_host(const Store& store, C10dStore& values, const HierarchicalOptions& options) {
  values.set(fmt::format("host/{}", options.rank), options.host);
  const auto ranks =
      ranks_where(values, "host", options.world_size, [&](int rank, const std::string& host) {
        return rank == options.rank || (host == options.host && !host.empty());
      });
  const Host alone{nullptr, options.rank};
  if (ranks.size() == 1) return alone;
  C10dStore local(with_prefix(store, fmt::format("host_of_{}", ranks.front())), options.timeout);
  auto found = shm::discover_host_group(local, {.rank = index_of(ranks, options.rank),
                                                .num_ranks = static_cast<int>(ranks.size()),
                                                .host = options.host});
  if (!found.group) return alone;
  return {c10::make_intrusive<ShmBackend>(std::move(found.group), options.timeout), ranks.front()};
}

// Collective. The ranks of each host, by leader.
std::map<int, std::vector<int>> gather_hosts(C10dStore& values, const HierarchicalOptions& options,
                                             int leader) {
  values.set(fmt::format("leader_of/{}", options.rank), std::to_string(leader));
  std::map<int, std::vector<int>> hosts;
  for (int rank = 0; rank < options.world_size; ++rank)
    hosts[std::stoi(values.get(fmt::format("leader_of/{}", rank)))].push_back(rank);
  return hosts;
}

int index_of_host(const std::map<int, std::vector<int>>& hosts, int leader) {
  return static_cast<int>(std::distance(hosts.begin(), hosts.find(leader)));
}

// Throws if the hosts cannot have the same parts of the state.
void verify_equal_hosts(const std::map<int, std::vector<int>>& hosts) {
  const auto size = hosts.begin()->second.size();
  for (const auto& [leader, ranks] : hosts)
    if (ranks.size() != size)
      throw config_error(fmt::format(
          "distributed.shard: with distributed.backend: hierarchical, each host divides "
          "the same state, but the host of rank {} has {} and the host of rank {} has "
          "{} ranks that share memory; use distributed.shard: optimizer",
          hosts.begin()->first, size, leader, ranks.size()));
  if (size == 1)
    throw config_error(
        "distributed.shard: with distributed.backend: hierarchical, the ranks of a host divide the "
        "state, but no two ranks share memory; use distributed.shard: optimizer");
}

}  // namespace

HostGroup make_shm_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                           std::chrono::milliseconds timeout) {
  C10dStore values(store, timeout);
  auto found = shm::discover_host_group(values, {.rank = rank, .num_ranks = world_size});
  if (!found.group) return {nullptr, found.reason};
  return {c10::make_intrusive<ShmBackend>(std::move(found.group), timeout), ""};
}

c10::intrusive_ptr<c10d::Backend> make_hierarchical_backend(const Store& store,
                                                            const HierarchicalOptions& options) {
  C10dStore values(store, options.timeout);
  HostLevels levels;
  const auto host = find_host(store, values, options);
  levels.local = host.backend;
  const auto hosts = gather_hosts(values, options, host.leader);
  if (host.leader == options.rank && hosts.size() > 1)
    levels.leaders =
        make_gloo_backend(with_prefix(store, "leaders"), index_of_host(hosts, host.leader),
                          static_cast<int>(hosts.size()), options.timeout, options.address);
  levels.flat = make_gloo_backend(with_prefix(store, "flat"), options.rank, options.world_size,
                                  options.timeout, options.address);
  // Note [First calls]: LibTorch's flight recorder registers a group at its first call, which is
  // not thread-safe. Later the backend's thread calls the leaders' group.
  for (const auto& group : {levels.leaders, levels.flat})
    if (group) group->barrier()->wait();
  return c10::make_intrusive<HierarchicalBackend>(std::move(levels));
}

HostGroups make_host_groups(const Store& store, const HierarchicalOptions& options) {
  C10dStore values(store, options.timeout);
  const auto host = find_host(store, values, options);
  const auto hosts = gather_hosts(values, options, host.leader);
  verify_equal_hosts(hosts);
  HostGroups groups{.local = host.backend, .peers = nullptr};
  if (hosts.size() == 1) return groups;
  groups.peers =
      make_gloo_backend(with_prefix(store, fmt::format("peers_{}", host.backend->getRank())),
                        index_of_host(hosts, host.leader), static_cast<int>(hosts.size()),
                        options.timeout, options.address);
  groups.peers->barrier()->wait();  // Note [First calls]
  return groups;
}

}  // namespace lockstep::distributed
