// The memory of a rank: what synchronizers and shards allocate (distributed/gradients/,
// distributed/sharding/), and at which time.
#include <algorithm>
#include <string>

#include "trainer/commands/plan/planned_sizes.h"

namespace lockstep::trainer {
namespace {

using distributed::UnitBytes;

struct UnitMaxima {
  size_t weights = 0, trained = 0;
  size_t neighbors = 0;  // weights of two successive units
};

UnitMaxima largest_of(const std::vector<UnitBytes>& units, size_t first) {
  UnitMaxima largest;
  for (size_t i = first; i < units.size(); ++i) {
    largest.weights = std::max(largest.weights, units[i].weights);
    largest.trained = std::max(largest.trained, units[i].trained);
    largest.neighbors = std::max(
        largest.neighbors, units[i].weights + (i + 1 < units.size() ? units[i + 1].weights : 0));
  }
  return largest;
}

class MemoryOf {
 public:
  MemoryOf(const PlannedSizes& sizes, ShardStrategy strategy)
      : sizes_(sizes),
        strategy_(strategy),
        is_full_(strategy == ShardStrategy::Full),
        shards_gradients_(distributed::shards_gradients(strategy) && sizes.world > 1),
        is_alone_(sizes.world == 1),
        shares_memory_(sizes.shares_memory || sizes.is_hybrid(strategy)),
        dividing_(sizes.is_hybrid(strategy) ? sizes.local_world : sizes.world) {}

  Json result() const {
    const auto buffers = sizes_.weights - sizes_.parameters;
    const auto snapshot_writers = is_full_ ? sizes_.world : sizes_.writers;
    Json memory = {{"weights", buffers + share_if(is_full_, sizes_.parameters)},
                   {"gradients", share_if(shards_gradients_, sizes_.trained)},
                   {"optimizer", share_if(strategy_ != ShardStrategy::None, sizes_.state)},
                   {"copies", copies()},
                   {"average", share_if(is_full_, sizes_.average)},
                   {"snapshot", sizes_.has_snapshot ? sizes_.checkpoint() / snapshot_writers : 0},
                   {"gathered", gathered()},
                   {"in_flight", in_flight()},
                   {"activations", sizes_.activations},
                   {"publishing", publishing()},
                   {"start", start()}};
    const auto sum = [&](std::initializer_list<const char*> names) {
      size_t bytes = 0;
      for (const auto* name : names) bytes += memory[name].get<size_t>();
      return bytes;
    };
    const auto kept = sum({"weights", "gradients", "optimizer", "copies", "average", "snapshot"});
    const auto in_pass = sum({"gathered", "in_flight", "activations"});
    const auto in_update = exchange_buffers() + publishing();
    memory["bytes"] = std::max(kept + std::max(in_pass, in_update), start());
    memory["checkpoint"] = sizes_.checkpoint();
    return memory;
  }

 private:
  size_t share_if(bool is_sharded, size_t bytes) const {
    return is_sharded ? (bytes + dividing_ - 1) / dividing_ : bytes;
  }

  bool is_full_over_network() const { return is_full_ && !shares_memory_ && !is_alone_; }

  // KeptShards: of the optimizer's state and the weights that it updates.
  size_t copies() const {
    if (!sizes_.has_copies || is_alone_ || strategy_ == ShardStrategy::None) return 0;
    return share_if(true, sizes_.state + sizes_.trained);
  }

  // ShardedWeights: what is outside of blocks, the block that is computed, and the next one.
  size_t gathered() const {
    if (!is_full_over_network()) return 0;
    const auto blocks = largest_of(sizes_.units, 1);
    return sizes_.units[0].weights + blocks.neighbors + copy_of(blocks.weights);
  }

  // Gloo gathers into a copy.
  size_t copy_of(size_t bytes) const { return sizes_.gathers_through_copies ? bytes : 0; }

  // Gradients that are not averaged yet, with the memory to send and receive them.
  size_t in_flight() const {
    if (is_alone_) return 0;
    if (!shards_gradients_) return reducer_buckets();
    // While micro-batches are accumulated, each rank has whole gradients.
    const bool accumulates = sizes_.micro_batches > 1;
    if (shares_memory_) return accumulates ? sizes_.trained : sizes_.largest_bucket;
    const auto& units = is_full_ ? sizes_.units : sizes_.gradient_units;
    auto own = largest_of(units, is_full_ ? 1 : 0).trained;
    if (is_full_) own += units[0].trained;
    return (accumulates ? sizes_.trained : own) + exchange_buffers();
  }

  // ExchangedGradients: to send and to receive the largest unit.
  size_t exchange_buffers() const {
    if (!shards_gradients_ || sizes_.shares_memory) return 0;
    return 2 * largest_of(is_full_ ? sizes_.units : sizes_.gradient_units, 0).trained;
  }

  size_t reducer_buckets() const {
    if (!sizes_.has_reducer) return 0;
    return (sizes_.has_bucket_views ? 0 : sizes_.trained) +
           (sizes_.is_compressed ? sizes_.exchanged : 0);
  }

  // FlatParameters::publish(): this rank's chunk, and Gloo's copy of all.
  size_t publishing() const {
    if (is_alone_ || is_full_ || strategy_ == ShardStrategy::None || shares_memory_) return 0;
    const auto unit =
        shards_gradients_ ? largest_of(sizes_.gradient_units, 0).trained : sizes_.trained;
    return unit / sizes_.world + copy_of(unit);
  }

  // On rank 0, which builds the model before its weights are moved into flat memory.
  size_t start() const {
    if (is_alone_ || strategy_ == ShardStrategy::None) return sizes_.weights;
    // On CPUs, initial values are computed one parameter at a time.
    if (is_full_ && sizes_.is_on_cpu) return 0;
    if (is_full_) return sizes_.weights + share_if(true, sizes_.parameters + sizes_.trained);
    const bool moves_by_unit = shards_gradients_ && !shares_memory_;
    return sizes_.weights + share_if(shards_gradients_, shards_gradients_ ? sizes_.trained : 0) +
           (moves_by_unit ? largest_of(sizes_.gradient_units, 0).trained : sizes_.trained);
  }

  const PlannedSizes& sizes_;
  ShardStrategy strategy_;
  bool is_full_, shards_gradients_, is_alone_;
  bool shares_memory_;  // the ranks that divide the state
  size_t dividing_;     // their number
};

}  // namespace

Json plan_memory(const PlannedSizes& sizes, ShardStrategy strategy) {
  return MemoryOf(sizes, strategy).result();
}

}  // namespace lockstep::trainer
