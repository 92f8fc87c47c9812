// A compiled training step: the forward pass, and the backward pass in one segment or several.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "lockstep/model.h"
#include "models/compiled/graph.h"
#include "models/package/manifest.h"

namespace lockstep::models {

struct CompiledResults {
  std::vector<at::Tensor> scalars;    // loss, sums and, where there are any, targets
  std::vector<at::Tensor> gradients;  // of the last trained parameters
  std::vector<at::Tensor> buffers;    // those that training changes, as they are now
  std::vector<GradientSegment> remaining_segments;
};

// Thread: one at a time, whoever calls.
class CompiledStep {
 public:
  // `graphs`: one for each segment of `manifest`.
  CompiledStep(std::vector<std::unique_ptr<CompiledGraph>> graphs, const PackageManifest& manifest);

  // `inputs`: parameters, buffers, fields, the weight of the loss. This outlives the segments that
  // come later; what they take is kept until the last one of them has it.
  CompiledResults run(std::vector<at::Tensor> inputs) const;

 private:
  std::vector<at::Tensor> run_segment(size_t number, std::vector<at::Tensor>& values) const;

  std::vector<std::unique_ptr<CompiledGraph>> graphs_;
  std::vector<SegmentSpec> segments_;
  std::vector<size_t> last_use_;  // of each value: the segment after which nobody takes it
  size_t num_scalars_, num_changed_;
};

}  // namespace lockstep::models
