// What an evaluation records besides metrics (tracking.media): a confusion matrix with precision
// and recall, the samples with the largest loss, histograms of weights and gradients. Each sample
// counts exactly once, so the result is the same for any number of ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/dataset.h"
#include "lockstep/model.h"
#include "lockstep/optimizer.h"
#include "lockstep/tracker.h"
#include "lockstep/world.h"
#include "tracking/config/media_config.h"

namespace lockstep::trainer {

// Throws Config if `config` asks for what cannot be shown of `batch`: the model returns no predictions
// per sample, or no label fits them.
void verify_media(const tracking::MediaConfig& config, const Batch& batch, const Outputs& outputs);

// Media of one evaluation. Thread: the training thread.
class EvaluationMedia {
 public:
  // The arguments outlive this.
  EvaluationMedia(const tracking::MediaConfig& config, World& world, const Dataset& eval_set);

  // Adds a batch that this rank has evaluated. Throws as verify_media().
  void add_batch(const Batch& batch, const Outputs& outputs);

  // Collective: merges the batches of all ranks; the main rank records the result. `at`: its name
  // is not used. `confusion`: of all ranks, int64 [K, K]; undefined: none.
  void record(Tracker& tracker, const Moment& at, const at::Tensor& confusion);

 private:
  struct Sample {
    double loss = 0;
    int64_t index = 0;
    double actual = 0, predicted = 0;
  };
  // A loss of nan is the worst; ties are in the order of the samples.
  static bool is_worse(const Sample& a, const Sample& b);
  void keep_worst(const at::Tensor& losses, const at::Tensor& predicted, const at::Tensor& label,
                  const at::Tensor& indices);
  void gather_worst();
  void record_confusion(Tracker& tracker, const Moment& at, const at::Tensor& confusion) const;
  void record_worst(Tracker& tracker, const Moment& at) const;
  void record_image(Tracker& tracker, const Moment& at, const Batch& batch,
                    const Sample& sample) const;
  std::string name_of(double label) const;

  const tracking::MediaConfig& config_;
  World& world_;
  const Dataset& eval_set_;
  std::vector<std::string> classes_;  // their names; may be empty
  std::vector<Sample> worst_;
  bool has_classes_ = false;
};

// On the main rank: records histograms of each parameter and of its gradient, if it has one.
void record_histograms(const World& world, Tracker& tracker, const Moment& at,
                       const NamedTensors& parameters);

}  // namespace lockstep::trainer
