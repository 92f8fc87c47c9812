// The bytes that a step sends. Ranks of a host are next to each other in the rings of all-reduces
// and all-gathers, so that one of them sends to another host.
#include "trainer/commands/plan/planned_sizes.h"

namespace lockstep::trainer {
namespace {

class TrafficOf {
 public:
  explicit TrafficOf(const PlannedSizes& sizes)
      : ranks_(static_cast<double>(sizes.world)),
        local_(static_cast<double>(sizes.local_world)),
        has_hosts_(sizes.world > sizes.local_world) {}

  void all_reduce(size_t bytes) { add_ring(2 * static_cast<double>(bytes)); }
  void all_gather(size_t bytes) { add_ring(static_cast<double>(bytes)); }

  // Every rank sends each other one its part.
  void all_to_all(size_t bytes) {
    per_rank_ += (ranks_ - 1) / ranks_ * static_cast<double>(bytes);
    per_host_ += local_ * (ranks_ - local_) / ranks_ * static_cast<double>(bytes);
  }

  // Within hosts in shared memory, then between their leaders.
  void hierarchical_all_reduce(size_t bytes) {
    const auto hosts = ranks_ / local_;
    per_rank_ += 2 * (local_ - 1) / local_ * static_cast<double>(bytes);
    per_host_ += 2 * (hosts - 1) / hosts * static_cast<double>(bytes);
  }

  // Within hosts in shared memory, then each rank with its part between hosts.
  void hybrid_reduce(size_t bytes) {
    const auto hosts = ranks_ / local_;
    const auto between = 2 * (hosts - 1) / hosts * static_cast<double>(bytes);
    per_rank_ += (local_ - 1) / local_ * static_cast<double>(bytes) + between / local_;
    per_host_ += between;
  }

  PlannedTraffic result() const {
    return {.per_rank = static_cast<size_t>(per_rank_),
            .per_host = has_hosts_ ? static_cast<size_t>(per_host_) : 0};
  }

 private:
  void add_ring(double bytes) {
    per_rank_ += (ranks_ - 1) / ranks_ * bytes;
    per_host_ += (ranks_ - 1) / ranks_ * bytes;
  }

  double ranks_, local_;
  bool has_hosts_;
  double per_rank_ = 0, per_host_ = 0;
};

// Of a forward and a backward pass. The last block stays gathered between them.
size_t gathered_bytes(const std::vector<distributed::UnitBytes>& units) {
  size_t bytes = units.front().weights;
  for (size_t i = 1; i < units.size(); ++i)
    bytes += (i + 1 < units.size() ? 2 : 1) * units[i].weights;
  return bytes;
}

}  // namespace

PlannedTraffic plan_traffic(const PlannedSizes& sizes, ShardStrategy strategy) {
  TrafficOf traffic(sizes);
  if (sizes.is_hybrid(strategy)) {
    traffic.hybrid_reduce(sizes.exchanged);
    return traffic.result();
  }
  if (distributed::shards_gradients(strategy))
    traffic.all_to_all(sizes.exchanged);
  else if (sizes.is_hierarchical)
    traffic.hierarchical_all_reduce(sizes.exchanged);
  else
    traffic.all_reduce(sizes.exchanged);
  if (strategy == ShardStrategy::Optimizer || strategy == ShardStrategy::Gradients)
    traffic.all_gather(sizes.trained);
  if (strategy == ShardStrategy::Full && !sizes.shares_memory)
    for (size_t i = 0; i < sizes.micro_batches; ++i)
      traffic.all_gather(gathered_bytes(sizes.units));
  return traffic.result();
}

}  // namespace lockstep::trainer
