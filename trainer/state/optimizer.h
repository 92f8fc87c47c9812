// Optimizers: they turn gradients into new parameters, with the arithmetic and the bits of
// Python's.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "core/config/config_choice.h"
#include "core/config/registry.h"
#include "distributed/named_tensors.h"

namespace lockstep {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // The configured learning rate; a schedule scales it.
  virtual double base_lr() const = 0;

  // Updates every parameter that has a gradient. Call it without autograd recording.
  virtual void step(double lr) = 0;

  // What a checkpoint must keep: names such as "exp_avg.layers.0.weight". The tensors are the live
  // ones.
  virtual NamedTensors state() const = 0;

  // Takes over what state() of an equal optimizer gave. Throws Config when a tensor is missing or
  // does not fit.
  virtual void load_state(const NamedTensors& state) = 0;
};

// Of `weight_decay_on`: all parameters, or those of two dimensions and more, so no biases and no
// norms.
enum class WeightDecay { All, Matrices };
constexpr auto choices(WeightDecay) {
  return choice_names<WeightDecay>(
      {{WeightDecay::All, "all"}, {WeightDecay::Matrices, "matrices"}});
}
inline constexpr const char* kDecayHelp =
    "matrices: weight decay spares parameters of one dimension, which are biases and norms";

bool is_decayed(WeightDecay on, const at::Tensor& parameter);

// Throws Config where there is no weight decay to be spared from.
void verify_decay(WeightDecay on, double weight_decay);

using OptimizerRegistry = Registry<Optimizer, const NamedTensors&>;
OptimizerRegistry& optimizer_registry();

// Whether there is a tensor called "<kind>.<parameter>" in `state`.
bool has_state(const NamedTensors& state, const std::string& kind, const std::string& parameter);

// The tensor called "<kind>.<parameter>" in `state`, checked against the parameter's shape; for
// load_state(). Throws Config.
at::Tensor find_state(const NamedTensors& state, const std::string& kind,
                      const std::string& parameter, at::IntArrayRef shape);

}  // namespace lockstep

// Once per optimizer, at namespace scope of its file. `type`: an Optimizer with a Config and a
// constructor (const Config&, const NamedTensors& parameters).
#define REGISTER_OPTIMIZER(name, type, help)                          \
  static const ::lockstep::Registration<type> registration_of_##type( \
      ::lockstep::optimizer_registry(), name, help)
