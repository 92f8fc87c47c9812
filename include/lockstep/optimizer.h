// The interface of optimizers, which update parameters from averaged gradients.
//
// Example:
//   struct SignConfig {
//     double lr = 1e-4;
//   };
//   template <class V>
//   void fields(V& v, SignConfig& c) {
//     v("lr", c.lr, "learning rate", lockstep::above(0));
//   }
//
//   class SignDescent final : public lockstep::Optimizer {
//    public:
//     using Config = SignConfig;
//     SignDescent(const Config& config, const lockstep::NamedTensors& parameters)
//         : config_(config), parameters_(parameters) {}
//     double base_lr() const override { return config_.lr; }
//     void step(double lr) override {
//       for (auto& [name, p] : parameters_)
//         if (p.grad().defined()) p.sub_(p.grad().sign(), lr);
//     }
//     lockstep::NamedTensors state() const override { return {}; }
//     void load_state(const lockstep::NamedTensors&) override {}
//
//    private:
//     Config config_;
//     lockstep::NamedTensors parameters_;
//   };
//   REGISTER_OPTIMIZER("sign_descent", SignDescent, "moves by the sign of the gradient");
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "lockstep/named_tensors.h"
#include "lockstep/registry.h"

namespace lockstep {

// The constructor is also called without parameters: to verify the settings, and on ranks that have
// no share of the parameters (distributed.shard).
//
// Errors: an exception in step() fails the run; others than Error (error.h) are reported as invalid
// input, with the optimizer's name.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // The configured learning rate, which a schedule scales.
  virtual double base_lr() const = 0;

  // Updates every parameter that has a gradient. Called on every rank, with averaged gradients and
  // autograd disabled.
  virtual void step(double lr) = 0;

  // Whether step() updates each element only from its own value, gradient and state. If so,
  // `distributed.shard` can run it on slices of the parameters with bit-identical
  // results.
  virtual bool is_elementwise() const { return false; }

  // Whether a parameter may be frozen at first (train.freeze), and have the state of a new optimizer when
  // others have been trained already: they share nothing, such as a count of steps. If so,
  // load_state() gets state() for what was frozen in the checkpoint.
  virtual bool can_unfreeze() const { return false; }

  // Whether evaluations and checkpoints use other weights than training, e.g. an average of them. If
  // so, use_evaluation_weights() sets the parameters to those, and use_training_weights() sets them
  // back, bit by bit. Called in turns on every rank, with autograd disabled and no step() in between.
  // `distributed.shard` and `train.ema` are refused.
  virtual bool has_evaluation_weights() const { return false; }
  virtual void use_evaluation_weights() {}
  virtual void use_training_weights() {}

  // The state for a checkpoint, named "<kind>.<parameter>", e.g. "exp_avg.layers.0.weight". The
  // tensors share memory with the optimizer.
  virtual NamedTensors state() const = 0;

  // Copies the state() of an identically configured optimizer. Throws Config when a tensor is
  // missing or has a different shape.
  virtual void load_state(const NamedTensors& state) = 0;
};

using OptimizerRegistry = Registry<Optimizer, const NamedTensors&>;
OptimizerRegistry& optimizer_registry();

// Helper for load_state(): whether `state` has a tensor called "<kind>.<parameter>".
bool has_state(const NamedTensors& state, const std::string& kind, const std::string& parameter);

// Helper for load_state(): the tensor called "<kind>.<parameter>" in `state`. Throws Config when it
// is missing or its shape is not `shape`.
at::Tensor find_state(const NamedTensors& state, const std::string& kind,
                      const std::string& parameter, at::IntArrayRef shape);

}  // namespace lockstep

// Registers an optimizer. Use at namespace scope. `type`: an Optimizer with a member type Config
// and a constructor (const Config&, const NamedTensors& parameters).
#define REGISTER_OPTIMIZER(name, type, help)                          \
  static const ::lockstep::Registration<type> registration_of_##type( \
      ::lockstep::optimizer_registry(), name, help)
