// A c10d::Reducer that exposes the order of its buckets and can start with a known order. Only
// files of distributed/ include this.
#pragma once

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <vector>

#include "lockstep/data_parallel.h"
#include "lockstep/named_tensors.h"

namespace lockstep::distributed {

class OrderedReducer final : public c10d::Reducer {
 public:
  // False with find_unused_parameters: the buckets are final from the start.
  static bool depends_on_order(const DataParallelConfig& config);

  // `order`: as recorded in a first step; the buckets are final then. Empty: as in Python, one
  // bucket until the order is known.
  OrderedReducer(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                 const NamedTensors& parameters, const DataParallelConfig& config,
                 const std::vector<int64_t>& order);

  // Collective, after a synchronized backward pass. With a static graph, the gradients of the first
  // pass are averaged here, because only now is it known how often each parameter was used.
  void after_backward();

  // Collective, before a forward pass: rebuilds the buckets once the order is known. Returns
  // whether it did.
  bool rebuild_in_order();

  // Authoritative on rank 0. Empty before the first step (with a static graph: the second), and
  // where buckets do not depend on it.
  const std::vector<int64_t>& order() const {
    return order_.empty() ? rebuilt_param_indices_ : order_;
  }

 private:
  bool delays_all_reduce_;
  std::vector<int64_t> order_;  // rebuild_buckets() clears the base class's copy
};

}  // namespace lockstep::distributed
