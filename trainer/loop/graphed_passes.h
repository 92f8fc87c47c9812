// Forward and backward passes on a GPU, recorded once per shape of a batch and replayed from then
// on (`train.cuda_graph`): the processor launches one graph where it would launch every kernel.
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
  bool keeps_gradients = false;  // those of a pass outlive the next one: batches are accumulated
  distributed::MakeLaunchGraph make = distributed::make_cuda_graph;
};

// Replayed passes give the bits of passes that are not: the same kernels on the same numbers. What
// the processor itself does in a forward pass is done once, when it is recorded; a pass that needs
// a number from the GPU for it cannot be recorded.
//
// Thread: the training thread.
class GraphedPasses {
 public:
  // The first passes of each shape are left to the caller: libraries choose their kernels in them.
  static constexpr int kPassesBefore = 3;
  // Batches of more shapes than this, first come first served, are always left to the caller.
  static constexpr size_t kMaxShapes = 8;

  // `model` outlives this; its parameters and buffers keep their places.
  GraphedPasses(Model& model, GraphedPassesOptions options);

  // Outputs of a training pass of `batch`, but no predictions, and the gradients of `weight`
  // (float32 scalar on the batch's device) times its loss. They are overwritten by the next call,
  // but for gradients with keeps_gradients. Nothing where the caller is to do the pass itself.
  std::optional<StepOutputs> pass(const Batch& batch, const at::Tensor& weight);

  // Why passes cannot be replayed, as soon as that is known; once.
  std::optional<std::string> take_reason();

 private:
  struct Recording {
    Batch batch;  // whose fields the graph reads; of the recorded shape
    at::Tensor weight;
    int passes = 0;
    std::unique_ptr<distributed::LaunchGraph> graph;  // none yet
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
