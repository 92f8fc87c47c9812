// Records the GPU launches of a piece of code once and replays them as a whole: a step of many
// small kernels then costs the CPU a single call.
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

  // Runs `body`, recording its launches without executing them, and returns its result tensors,
  // which each replay() overwrites. Memory that the body reads must stay at the same address. Call
  // it once. Throws what the body throws, and c10::Error if something in it cannot be recorded,
  // such as waiting for the device; other work, including random numbers, is unaffected then.
  virtual std::vector<at::Tensor> record(const Body& body) = 0;

  // Enqueues the recorded launches on the current stream. Does not wait. Random numbers are those
  // that the body would draw now.
  virtual void replay() = 0;
};

using MakeLaunchGraph = std::function<std::unique_ptr<LaunchGraph>()>;

// A CUDA graph of the GPU that this thread uses. Throws Config as use_gpu(), in
// distributed/cuda/cuda.h.
std::unique_ptr<LaunchGraph> make_cuda_graph();

}  // namespace lockstep::distributed
