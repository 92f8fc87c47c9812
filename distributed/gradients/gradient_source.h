// Feeds gradients that were not computed by autograd to the parameters. Only files of distributed/
// include this.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lockstep/named_tensors.h"

namespace lockstep::distributed {

// One gradient per parameter, not referenced elsewhere. Those of the last parameters are available
// from the start. The others are computed in segments, from the last parameter to the first.
class GivenGradients {
 public:
  using Segment = std::function<std::vector<at::Tensor>()>;

  // `parameters` outlive this. This constructor and the functions below throw Config for a gradient
  // that is not of the shape, type and device of its parameter, and for a wrong number of them.
  GivenGradients(const NamedTensors& parameters, std::vector<at::Tensor> last,
                 std::vector<Segment> remaining_segments);

  // Gradients of the parameters from this index on are available, or were taken.
  size_t first() const { return first_; }

  // Computes the next segment. Requires: first() > 0.
  void compute_next();

  // Moves out the gradient of parameter `index`, computing segments as needed.
  at::Tensor take(size_t index);

 private:
  void store(std::vector<at::Tensor> computed);

  const NamedTensors& parameters_;
  std::vector<at::Tensor> gradients_;
  std::vector<Segment> remaining_segments_;
  size_t first_, next_segment_ = 0;
};

// Returns a scalar whose backward() passes `gradients` to `parameters`, last to first, computing
// segments when it reaches them. Users of autograd hooks, such as c10d::Reducer, see an ordinary
// backward pass. Gradients are moved, not copied.
at::Tensor make_autograd_root(const NamedTensors& parameters,
                              const std::shared_ptr<GivenGradients>& gradients);

// Accumulates the given gradients into those of the parameters, segment by segment. Calls
// before_segment(first) before each segment is computed; gradients of the parameters from `first`
// on are complete then.
void add_to_parameters(const NamedTensors& parameters, GivenGradients& gradients,
                       const std::function<void(size_t first)>& before_segment = nullptr);

}  // namespace lockstep::distributed
