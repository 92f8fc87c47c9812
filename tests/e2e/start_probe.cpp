// A model for tests of the start of a run: its constructor does what cannot be deferred, and its
// first forward pass writes down how much memory the rank needed until then. Needs "tokens" and
// "targets" of 16 tokens.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/modules/linear.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/model.h"

namespace {

using namespace lockstep;

// The largest resident size of this process until now, in kB.
std::string peak_memory() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word && word != "VmHWM:") {
  }
  status >> word;
  return word;
}

struct Part final : Block {
  at::Tensor forward(const at::Tensor& x) {
    return run(x, [this](const at::Tensor& input) { return linear->forward(input).relu(); });
  }
  torch::nn::Linear linear{register_module("linear", torch::nn::Linear(784, 784))};
};

struct StartProbeConfig {
  std::string way = "in place";
  int64_t parts = 1;
  std::string directory;
};
template <class V>
void fields(V& v, StartProbeConfig& c) {
  v("way", c.way, "how it is initialized: in place, read, pointer or seed");
  v("parts", c.parts, "number of equal blocks", at_least(1));
  v("directory", c.directory, "for a file rank.N with the largest resident size in kB");
}

class StartProbe final : public Model {
 public:
  using Config = StartProbeConfig;

  explicit StartProbe(const Config& config) : directory_(config.directory) {
    for (int64_t i = 0; i < config.parts; ++i)
      parts_.push_back(register_module("part" + std::to_string(i), std::make_shared<Part>()));
    const at::NoGradGuard no_grad;
    auto& weight = parts_[0]->linear->weight;
    if (config.way == "read") weight.div_(weight.norm());
    if (config.way == "pointer") weight.data_ptr<float>()[5000] = 3;
    if (config.way == "seed") at::manual_seed(1);
    scale_ = register_parameter("scale", at::empty({784}).uniform_());
  }

  Outputs forward(const Batch& batch) override {
    if (!directory_.empty()) {
      std::ofstream(directory_ + "/rank." + std::getenv("RANK")) << peak_memory();
      directory_.clear();
    }
    auto x = batch.at("tokens").to(at::kFloat).div(61).repeat({1, 49});
    for (const auto& part : parts_) x = part->forward(x);
    const auto logits = last_->forward(x * scale_);
    const auto labels = batch.at("targets").select(1, 0).remainder(10);
    return {.loss = at::cross_entropy_loss(logits, labels),
            .count = batch.size(),
            .predictions = logits};
  }

 private:
  std::string directory_;  // empty: nothing to write
  std::vector<std::shared_ptr<Part>> parts_;
  torch::nn::Linear last_{register_module("last", torch::nn::Linear(784, 10))};
  at::Tensor scale_;
};
REGISTER_MODEL("start_probe", StartProbe, "for tests");

}  // namespace
