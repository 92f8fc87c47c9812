// How gradients that no autograd made reach the parameters. Only files of distributed/ include
// this.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

namespace lockstep {

// Gradients of parameters, one each, which nobody else holds. Those of the last parameters are
// there, the others are made in segments, each of those before the ones that there are.
class GivenGradients {
 public:
  using Segment = std::function<std::vector<at::Tensor>()>;

  GivenGradients(size_t num_parameters, std::vector<at::Tensor> last, std::vector<Segment> later);

  // From this parameter on they are there, or were taken.
  size_t first() const { return first_; }

  // Makes those of the next segment. Requires: first() > 0.
  void make_next();

  // Gives up the gradient of parameter `index`, made if it is not there yet.
  at::Tensor take(size_t index);

 private:
  void put(std::vector<at::Tensor> made);

  std::vector<at::Tensor> gradients_;
  std::vector<Segment> later_;
  size_t first_, next_ = 0;
};

// A scalar whose backward() hands `gradients` to `parameters`, the last one first, and makes those
// that are not there when it comes to them: what listens to autograd, as c10d::Reducer does, sees
// an ordinary backward pass. They are moved on, not copied.
at::Tensor make_root(const std::vector<at::Tensor>& parameters,
                     const std::shared_ptr<GivenGradients>& gradients);

// The gradients of parameters from gradients.first() to `end` become the given ones, or grow by
// them.
void add_to_parameters(std::vector<at::Tensor>& parameters, GivenGradients& gradients, size_t end);

}  // namespace lockstep
