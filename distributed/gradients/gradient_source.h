// How gradients that no autograd made reach the parameters. Only files of distributed/ include
// this.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lockstep/named_tensors.h"

namespace lockstep::distributed {

// Gradients of parameters, one each, not referenced elsewhere. Those of the last parameters are
// there, the others are made in segments, each of those before the ones that there are.
class GivenGradients {
 public:
  using Segment = std::function<std::vector<at::Tensor>()>;

  GivenGradients(size_t num_parameters, std::vector<at::Tensor> last,
                 std::vector<Segment> remaining_segments);

  // From this parameter on they are there, or were taken.
  size_t first() const { return first_; }

  // Makes those of the next segment. Requires: first() > 0.
  void make_next();

  // Gives up the gradient of parameter `index`, made if it is not there yet.
  at::Tensor take(size_t index);

 private:
  void put(std::vector<at::Tensor> made);

  std::vector<at::Tensor> gradients_;
  std::vector<Segment> remaining_segments_;
  size_t first_, next_segment_ = 0;
};

// A scalar whose backward() hands `gradients` to `parameters`, the last one first, and makes those
// that are not there when it comes to them: what listens to autograd, as c10d::Reducer does, sees
// an ordinary backward pass. They are moved on, not copied.
at::Tensor make_root(const NamedTensors& parameters,
                     const std::shared_ptr<GivenGradients>& gradients);

// The gradients of all parameters become the given ones, or grow by them, segment by segment.
// before_segment(first) is called before the next segment is made: those of the parameters from
// `first` on are there then.
void add_to_parameters(const NamedTensors& parameters, GivenGradients& gradients,
                       const std::function<void(size_t first)>& before_segment = nullptr);

}  // namespace lockstep::distributed
