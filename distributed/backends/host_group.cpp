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

class StoreBoard final : public shm::Board {
 public:
  StoreBoard(c10::intrusive_ptr<c10d::Store> store, std::chrono::milliseconds timeout)
      : store_(std::move(store)), timeout_(timeout) {}

  void put(const std::string& key, const std::string& value) override { store_->set(key, value); }
  std::string get(const std::string& key) override {
    store_->wait({key}, timeout_);
    return store_->get_to_str(key);
  }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  std::chrono::milliseconds timeout_;
};

using Store = c10::intrusive_ptr<c10d::Store>;

Store part_of(const Store& store, const std::string& name) {
  return c10::make_intrusive<c10d::PrefixStore>(name, store);
}

// The ranks for which `is_one` holds of what they have put under `key`.
template <class IsOne>
std::vector<int> ranks_where(StoreBoard& board, const std::string& key, int world_size,
                             const IsOne& is_one) {
  std::vector<int> ranks;
  for (int rank = 0; rank < world_size; ++rank)
    if (is_one(rank, board.get(fmt::format("{}/{}", key, rank)))) ranks.push_back(rank);
  return ranks;
}

int index_of(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
}

// The group of the ranks of this host; null when this rank stands alone.
c10::intrusive_ptr<ShmBackend> meet_on_host(const Store& store, StoreBoard& board,
                                            const HostPlace& place) {
  board.put(fmt::format("host/{}", place.rank), place.host);
  const auto ranks =
      ranks_where(board, "host", place.world_size, [&](int rank, const std::string& host) {
        return rank == place.rank || (host == place.host && !host.empty());
      });
  if (ranks.size() == 1) return nullptr;
  StoreBoard local(part_of(store, fmt::format("host_of_{}", ranks.front())), place.timeout);
  auto meeting = shm::meet(local, {.rank = index_of(ranks, place.rank),
                                   .num_ranks = static_cast<int>(ranks.size()),
                                   .host = place.host});
  if (!meeting.group) return nullptr;
  return c10::make_intrusive<ShmBackend>(std::move(meeting.group), place.timeout);
}

}  // namespace

HostGroup make_shm_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                           std::chrono::milliseconds timeout) {
  StoreBoard board(store, timeout);
  auto meeting = shm::meet(board, {.rank = rank, .num_ranks = world_size});
  if (!meeting.group) return {nullptr, meeting.reason};
  return {c10::make_intrusive<ShmBackend>(std::move(meeting.group), timeout), ""};
}

c10::intrusive_ptr<c10d::Backend> make_hierarchical_backend(const Store& store,
                                                            const HostPlace& place) {
  StoreBoard board(store, place.timeout);
  HostLevels levels;
  levels.local = meet_on_host(store, board, place);
  const bool leads = !levels.local || levels.local->getRank() == 0;
  board.put(fmt::format("leads/{}", place.rank), leads ? "yes" : "no");
  const auto leaders = ranks_where(board, "leads", place.world_size,
                                   [](int, const std::string& yes) { return yes == "yes"; });
  if (leads && leaders.size() > 1)
    levels.leaders =
        make_gloo_backend(part_of(store, "leaders"), index_of(leaders, place.rank),
                          static_cast<int>(leaders.size()), place.timeout, place.address);
  levels.flat = make_gloo_backend(part_of(store, "flat"), place.rank, place.world_size,
                                  place.timeout, place.address);
  // Note [First calls]: LibTorch's flight recorder takes up a group at its first call, and is not
  // made for two groups that make theirs at the same time. Later the leaders' is called from a
  // thread of its own.
  for (const auto& group : {levels.leaders, levels.flat})
    if (group) group->barrier()->wait();
  return c10::make_intrusive<HierarchicalBackend>(std::move(levels));
}

}  // namespace lockstep::distributed
