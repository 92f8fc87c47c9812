// Averages gradients into memory that all ranks of a host share (the sharded gradients of ZeRO-2).
// Gradients are exchanged in units of about one bucket during the backward pass, and a rank's own
// gradients are freed after that. Each rank averages an equal part of every unit. Sums and buckets
// are bit-identical to those of SharedMemoryGradients. With a hierarchical backend, each rank then
// adds its part to those of the other hosts (distributed/gradients/host_sums.h), with the bits of
// the backend's all-reduce.
//
// After a synchronized pass, gradients are views of the shared memory: complete and equal on all
// ranks until the next one. To change them, a rank writes its own slices only
// (distributed/sharding/flat_parameters.h). Only files of distributed/ include this.
#pragma once

#include <optional>

#include "distributed/gradients/host_sums.h"
#include "distributed/gradients/ordered_gradients.h"

namespace lockstep::distributed {

class PerHostGradients final : public OrderedGradients {
 public:
  // `averages`: one contiguous tensor per parameter, in memory from per_host_zeros() of
  // world.host().
  PerHostGradients(World& world, NamedTensors parameters, std::vector<at::Tensor> averages,
                   const DataParallelConfig& config);

  void add_gradients(const std::shared_ptr<GivenGradients>& gradients, bool synchronize) override;

 private:
  void on_gradient_ready(size_t index) override;
  void layout_buckets() override;
  void begin_pass(bool synchronize) override;
  void exchange_ready_units();
  void exchange(size_t begin, size_t end);
  void finish_pass() override;

  std::vector<at::Tensor> averages_;
  std::vector<size_t> sequence_;   // parameters in the order of their exchange, equal on all ranks
  std::vector<size_t> unit_ends_;  // in sequence_

  bool is_synchronizing_ = false;
  std::vector<bool> is_ready_;  // of each parameter, in this pass
  size_t next_unit_ = 0;
  std::optional<HostSums> hosts_;            // with several hosts
  std::chrono::duration<double> waited_{0};  // in this pass
};

}  // namespace lockstep::distributed
