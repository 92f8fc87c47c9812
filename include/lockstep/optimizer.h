// The interface of optimizers, which turn averaged gradients into new parameters.
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

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // The configured learning rate; a schedule scales it.
  virtual double base_lr() const = 0;

  // Updates every parameter that has a gradient. Called on every rank, with gradients that are
  // averaged already and autograd off.
  virtual void step(double lr) = 0;

  // What a checkpoint saves, as "<kind>.<parameter>", e.g. "exp_avg.layers.0.weight". The tensors
  // share memory with the optimizer.
  virtual NamedTensors state() const = 0;

  // Copies what state() of an equal optimizer returned. Throws Config when a tensor is missing or
  // has another shape.
  virtual void load_state(const NamedTensors& state) = 0;
};

using OptimizerRegistry = Registry<Optimizer, const NamedTensors&>;
OptimizerRegistry& optimizer_registry();

// For load_state(): whether `state` has a tensor called "<kind>.<parameter>".
bool has_state(const NamedTensors& state, const std::string& kind, const std::string& parameter);

// For load_state(): the tensor called "<kind>.<parameter>" in `state`. Throws Config when it is
// missing or its shape is not `shape`.
at::Tensor find_state(const NamedTensors& state, const std::string& kind,
                      const std::string& parameter, at::IntArrayRef shape);

}  // namespace lockstep

// At namespace scope, once per optimizer. `type`: an Optimizer with a Config and a constructor
// (const Config&, const NamedTensors& parameters).
#define REGISTER_OPTIMIZER(name, type, help)                          \
  static const ::lockstep::Registration<type> registration_of_##type( \
      ::lockstep::optimizer_registry(), name, help)
