// A compiled training step: the forward pass, and the backward pass in one or more segments.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "lockstep/model.h"
#include "models/compiled/graph.h"
#include "models/package/manifest.h"

namespace lockstep::models {

struct CompiledResults {
  std::vector<at::Tensor> scalars;    // loss, sums and, if any, targets
  std::vector<at::Tensor> gradients;  // of the last trainable parameters
  std::vector<at::Tensor> buffers;    // new values of the buffers that training changes
  std::vector<GradientSegment> remaining_segments;
};

// Thread: not thread-safe, including the remaining segments.
class CompiledStep {
 public:
  // `graphs`: one per segment of `manifest`.
  CompiledStep(std::vector<std::unique_ptr<CompiledGraph>> graphs, const PackageManifest& manifest);

  // `inputs`: parameters, buffers, fields, the weight of the loss. This object must outlive the
  // remaining segments. Values are kept until the last segment that uses them.
  CompiledResults run(std::vector<at::Tensor> inputs) const;

 private:
  std::vector<at::Tensor> run_segment(size_t number, std::vector<at::Tensor>& values) const;

  std::vector<std::unique_ptr<CompiledGraph>> graphs_;
  std::vector<SegmentSpec> segments_;
  std::vector<size_t> last_use_;  // for each value, the last segment that uses it
  size_t num_scalars_, num_changed_;
};

}  // namespace lockstep::models
