// A c10d::Reducer that tells the order its buckets are made of, and can begin with buckets of a
// known order. Only files of distributed/ include this.
#pragma once

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <vector>

#include "lockstep/data_parallel.h"
#include "lockstep/named_tensors.h"

namespace lockstep::distributed {

class OrderedReducer final : public c10d::Reducer {
 public:
  // False where unused parameters are looked for: the buckets are final from the beginning.
  static bool depends_on_order(const DataParallelConfig& config);

  // `order`: as after a first step that had it; the buckets are final then. Empty: as in Python,
  // one bucket until the order is known.
  OrderedReducer(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                 const NamedTensors& parameters, const DataParallelConfig& config,
                 const std::vector<int64_t>& order);

  // Collective, after a backward pass whose gradients are averaged: with a static graph those of
  // the first one are averaged only here, when it is known how often each parameter was used.
  void after_backward();

  // Collective, before a forward pass: makes buckets of the order once it is known. Returns whether
  // it did.
  bool arrange_by_order();

  // On rank 0, whose order counts; empty before the first step (with a static graph: the second),
  // and where buckets do not depend on it.
  const std::vector<int64_t>& order() const {
    return order_.empty() ? rebuilt_param_indices_ : order_;
  }

 private:
  bool averages_late_;
  std::vector<int64_t> order_;  // rebuild_buckets() forgets it
};

}  // namespace lockstep::distributed
