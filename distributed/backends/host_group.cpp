#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include "distributed/backends/backends.h"
#include "distributed/backends/hierarchical_backend.h"
#include "distributed/backends/shm_backend.h"
#include "distributed/shm/host_discovery.h"

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

// Collective. The backend of the ranks of this host; null if this rank forms a group of one.
c10::intrusive_ptr<ShmBackend> make_host_backend(const Store& store, C10dStore& values,
                                                 const HierarchicalOptions& options) {
  values.set(fmt::format("host/{}", options.rank), options.host);
  const auto ranks =
      ranks_where(values, "host", options.world_size, [&](int rank, const std::string& host) {
        return rank == options.rank || (host == options.host && !host.empty());
      });
  if (ranks.size() == 1) return nullptr;
  C10dStore local(with_prefix(store, fmt::format("host_of_{}", ranks.front())), options.timeout);
  auto found = shm::discover_host_group(local, {.rank = index_of(ranks, options.rank),
                                                .num_ranks = static_cast<int>(ranks.size()),
                                                .host = options.host});
  if (!found.group) return nullptr;
  return c10::make_intrusive<ShmBackend>(std::move(found.group), options.timeout);
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
  levels.local = make_host_backend(store, values, options);
  const bool leads = !levels.local || levels.local->getRank() == 0;
  values.set(fmt::format("leads/{}", options.rank), leads ? "yes" : "no");
  const auto leaders = ranks_where(values, "leads", options.world_size,
                                   [](int, const std::string& yes) { return yes == "yes"; });
  if (leads && leaders.size() > 1)
    levels.leaders =
        make_gloo_backend(with_prefix(store, "leaders"), index_of(leaders, options.rank),
                          static_cast<int>(leaders.size()), options.timeout, options.address);
  levels.flat = make_gloo_backend(with_prefix(store, "flat"), options.rank, options.world_size,
                                  options.timeout, options.address);
  // Note [First calls]: LibTorch's flight recorder registers a group at its first call, which is
  // not thread-safe. Later the backend's thread calls the leaders' group.
  for (const auto& group : {levels.leaders, levels.flat})
    if (group) group->barrier()->wait();
  return c10::make_intrusive<HierarchicalBackend>(std::move(levels));
}

}  // namespace lockstep::distributed
