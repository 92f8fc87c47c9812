// A model with typical errors of plugin authors, for tests.
#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "lockstep/model.h"

namespace {

using namespace lockstep;

struct FaultyModelConfig {
  std::string fault = "none";
};

template <class V>
void fields(V& v, FaultyModelConfig& c) {
  v("fault", c.fault, "what it does wrong");
}

class FaultyModel final : public Model {
 public:
  using Config = FaultyModelConfig;

  explicit FaultyModel(const Config& config) : fault_(config.fault), layer_(3, 2) {
    register_module("layer", layer_);
    const auto* const rank = std::getenv("RANK");
    if (fault_ == "kills rank 1" && rank && std::string(rank) == "1") std::raise(SIGKILL);
    if (fault_ == "double parameters") layer_->to(at::kDouble);
    if (fault_ == "meta device")
      register_parameter("bias", at::empty({2}, at::device(at::kMeta).dtype(at::kFloat)));
  }

  Outputs forward(const Batch& batch) override {
    if (fault_ == "segmentation fault") *unmapped() = 1;
    if (fault_ == "too large for a GPU")
      C10_THROW_ERROR(OutOfMemoryError, "CUDA out of memory. Tried to allocate 2.00 GiB");
    if (fault_ == "not deterministic")
      C10_THROW_ERROR(Error,
                      "bincount_cuda does not have a deterministic implementation, but you set");
    const auto logits = layer_(batch.at("image"));
    const auto label = batch.at("label");
    Outputs outputs{.loss = at::cross_entropy_loss(logits, label), .count = logits.size(0)};
    if (fault_ == "no loss") outputs.loss = at::Tensor();
    if (fault_ == "no count") outputs.count = 0;
    if (fault_ == "a wrong count") outputs.count = 7;
    if (fault_ == "a loss per sample") outputs.loss = at::cross_entropy_loss(logits, label, {}, 0);
    if (fault_ == "a detached loss") outputs.loss = outputs.loss.detach();
    if (fault_ == "an integer loss") outputs.loss = label.sum();
    return outputs;
  }

 private:
  static volatile int* unmapped() { return nullptr; }

  std::string fault_;
  torch::nn::Linear layer_;
};

REGISTER_MODEL("faulty_model", FaultyModel, "for tests");

}  // namespace
