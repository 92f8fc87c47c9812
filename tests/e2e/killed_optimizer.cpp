// SGD with momentum, for tests: the first process that removes the file `kill_when` is killed in the
// middle of its update.
#include <unistd.h>

#include <csignal>
#include <string>

#include "lockstep/optimizer.h"

namespace {

struct KilledConfig {
  double lr = 0.1, momentum = 0.9;
  std::string kill_when;
};
template <class V>
void fields(V& v, KilledConfig& c) {
  v("lr", c.lr, "learning rate");
  v("momentum", c.momentum, "momentum");
  v("kill_when", c.kill_when, "a file");
}

struct Killed final : lockstep::Optimizer {
  using Config = KilledConfig;
  Killed(const Config& given, const lockstep::NamedTensors& tensors)
      : config(given), parameters(tensors), averages(tensors.size()) {}

  double base_lr() const override { return config.lr; }
  bool is_elementwise() const override { return true; }

  void step(double lr) override {
    for (size_t i = 0; i < parameters.size(); ++i) {
      auto& parameter = parameters[i].second;
      // A new tensor in every step.
      averages[i] = averages[i].defined() ? averages[i] * config.momentum + parameter.grad()
                                          : parameter.grad().clone();
      parameter.sub_(averages[i], lr);
      if (!config.kill_when.empty() && ::unlink(config.kill_when.c_str()) == 0)
        ::kill(::getpid(), SIGKILL);
    }
  }

  lockstep::NamedTensors state() const override {
    lockstep::NamedTensors state;
    for (size_t i = 0; i < parameters.size(); ++i)
      if (averages[i].defined()) state.emplace_back("average." + parameters[i].first, averages[i]);
    return state;
  }
  void load_state(const lockstep::NamedTensors& state) override {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto& [name, parameter] = parameters[i];
      averages[i] = lockstep::find_state(state, "average", name, parameter.sizes()).clone();
    }
  }

  KilledConfig config;
  lockstep::NamedTensors parameters;
  std::vector<at::Tensor> averages;
};
REGISTER_OPTIMIZER("killed", Killed, "is killed in an update");

}  // namespace
