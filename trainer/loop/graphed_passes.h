// Forward and backward passes captured as CUDA graphs, once per batch shape, and replayed from then
// on (`train.cuda_graph`): the CPU launches one graph instead of every kernel.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "distributed/cuda/launch_graph.h"
#include "lockstep/model.h"
#include "trainer/config/precision.h"

namespace lockstep::trainer {

struct GraphedPassesOptions {
  Precision precision = Precision::Float32;
  bool keeps_gradients = false;  // gradients outlive the next pass, for gradient accumulation
  distributed::MakeLaunchGraph make = distributed::make_cuda_graph;
};

// Replayed passes are bit-identical to eager ones: the same kernels on the same values. CPU code of
// a forward pass runs only once, during capture; a pass in which it needs a value from the GPU
// cannot be captured.
//
// Thread: the training thread.
class GraphedPasses {
 public:
  // The caller runs the first passes of each shape: libraries select their kernels in them.
  static constexpr int kPassesBefore = 3;
  // Batches of further shapes, in order of appearance, are always left to the caller.
  static constexpr size_t kMaxShapes = 8;

  // `model` outlives this; its parameters and buffers must keep their addresses.
  GraphedPasses(Model& model, GraphedPassesOptions options);

  // Returns the outputs of a training pass of `batch`, without predictions, and the gradients of
  // `weight` (float32 scalar on the batch's device) times its loss. The next call overwrites them,
  // except for gradients with keeps_gradients. nullopt: the caller runs the pass itself.
  std::optional<StepOutputs> pass(const Batch& batch, const at::Tensor& weight);

  // Returns once why passes cannot be replayed, as soon as that is known.
  std::optional<std::string> take_reason();

 private:
  struct Recording {
    Batch batch;  // of the recorded shape; the graph reads its fields
    at::Tensor weight;
    int passes = 0;
    std::unique_ptr<distributed::LaunchGraph> graph;  // null: not captured yet
    Outputs outputs;
    std::vector<at::Tensor> gradients;
  };
  Recording* recording_of(const Batch& batch);
  bool record(Recording& recording);
  std::vector<at::Tensor> pass_for(Recording& recording);
  std::vector<at::Tensor> gradients_of(const Outputs& outputs, const at::Tensor& weight) const;

  Model& model_;
  const GraphedPassesOptions options_;
  std::vector<at::Tensor> parameters_;  // the trainable ones
  std::vector<std::string> names_;      // of those
  std::vector<Recording> recordings_;
  bool gave_up_ = false;
  std::optional<std::string> reason_;
};

}  // namespace lockstep::trainer
