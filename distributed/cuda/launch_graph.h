// What a piece of code launches on a GPU, recorded once and launched again as a whole: for the
// processor a step of many small kernels is then one call.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

namespace lockstep::distributed {

// Thread: one at a time.
class LaunchGraph {
 public:
  using Body = std::function<std::vector<at::Tensor>()>;

  virtual ~LaunchGraph() = default;

  // Runs `body`, whose launches are recorded and not done, and returns the tensors that it
  // returned: each replay() fills them anew. Everything that the body reads must stay where it is.
  // Call it once. Throws what the body throws, and c10::Error where something in it cannot be
  // recorded, such as waiting for the device; other work goes on as before then, random numbers
  // included.
  virtual std::vector<at::Tensor> record(const Body& body) = 0;

  // Launches what was recorded, behind what is queued on the current stream. Waits for nothing.
  // Random numbers are those that the body would draw now.
  virtual void replay() = 0;
};

using MakeLaunchGraph = std::function<std::unique_ptr<LaunchGraph>()>;

// A CUDA graph of the GPU that this thread uses. Throws Config as use_gpu(), in
// distributed/cuda/cuda.h.
std::unique_ptr<LaunchGraph> make_cuda_graph();

}  // namespace lockstep::distributed
