// Averages gradients in shared memory, without c10d::Reducer's copies into and out of buckets. With
// autograd it runs after the backward pass, because on CPUs the cores that would move gradients are
// those that compute them; with a compiled backward pass, on a separate thread while the next
// segment is computed.
//
// Note [Where gradients live]: models with 32 KiB of gradients or more use a symmetric buffer. A
// post-accumulate hook moves each gradient there while it is in the caches; then each rank reduces
// its slice for all. Parameters' gradients are views of the buffer until zero_gradients() resets
// them. Smaller models keep gradients where autograd put them and reduce through the slots of the
// group, which takes one barrier instead of two.
//
// Only files of distributed/ include this.
#pragma once

#include <future>

#include "distributed/gradients/ordered_gradients.h"

namespace lockstep::distributed {

class SharedMemoryGradients final : public OrderedGradients {
 public:
  // Collective. As OrderedGradients().
  static std::unique_ptr<SharedMemoryGradients> create(World& world, NamedTensors parameters,
                                                       const DataParallelConfig& config);

  void add_gradients(const std::shared_ptr<GivenGradients>& gradients, bool synchronize) override;

 private:
  SharedMemoryGradients(World& world, NamedTensors parameters, const DataParallelConfig& config,
                        std::shared_ptr<shm::SymmetricBuffer> buffer);
  void on_gradient_ready(size_t index) override;
  void layout_buckets() override;
  void move_to_buffer(size_t index);
  void finish_pass() override;
  void start_average(size_t first);
  void average_from(size_t first);
  void average_in_symmetric_buffer(size_t end);
  void average_through_slots(size_t end);

  size_t next_bucket_ = 0;         // the first one that is not averaged yet
  std::vector<shm::Array> parts_;  // of one bucket; a member to reuse its memory

  std::shared_ptr<shm::SymmetricBuffer> buffer_;  // null: small gradients, or allocation failed
  std::vector<at::Tensor> gradient_views_;        // into the buffer, one per parameter
  std::vector<shm::Group::BufferRange> bucket_ranges_;

  std::future<void> pending_average_;  // of start_average()
};

}  // namespace lockstep::distributed
