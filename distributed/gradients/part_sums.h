// Adds the gradients of a rank's parts of a step (distributed.virtual_shards) in a balanced binary
// tree, which ranks continue (Note [Order of sums] in distributed/shm/reduction.h). Only files of
// distributed/ include this.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep::distributed {

// Thread: the training thread.
class PartSums {
 public:
  // The gradients of the next part; keeps and changes their memory. Up to log2(parts) + 1 sets of
  // gradients exist at a time.
  void add(std::vector<at::Tensor> gradients);

  // The sum of all parts, whose number must be a power of two; then there are none.
  std::vector<at::Tensor> take();

 private:
  struct Sum {
    std::vector<at::Tensor> gradients;
    int64_t num_parts = 1;
  };
  std::vector<Sum> pending_;  // of fewer and fewer parts
};

}  // namespace lockstep::distributed
