// For tests of lost ranks: SGD with momentum, with which the first process that removes the file
// `kill_when` is killed in the middle of its update, and a hook that holds the ranks before a step.
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>

#include "lockstep/hook.h"
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

struct HeldConfig {
  std::string file;
};
template <class V>
void fields(V& v, HeldConfig& c) {
  v("file", c.file, "contains the number of steps after which ranks wait; replaced as a whole");
}

// After that number of steps, the rank makes the file `<file>.<steps>` and waits until the number changes.
class Held final : public lockstep::Hook {
 public:
  using Config = HeldConfig;
  explicit Held(const Config& config) : config_(config) {}

  void before_step(lockstep::HookContext& run) override {
    if (run.step < last_step()) return;
    std::ofstream(config_.file + "." + std::to_string(run.step)).flush();
    while (run.step >= last_step()) ::poll(nullptr, 0, 2);
  }

 private:
  int64_t last_step() const {
    int64_t step = 0;
    std::ifstream(config_.file) >> step;
    return step;
  }

  Config config_;
};
REGISTER_HOOK("held", Held, "waits before a step");

}  // namespace
