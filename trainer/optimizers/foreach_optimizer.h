// The common part of optimizers that update many parameters with one call per operation: their
// states, the choice of what is decayed, and blocks.
//
// Note [Blocks]: on a CPU with one thread, parameters are updated in blocks that fit into the
// cache, so that the operations of an update read memory once instead of once each. Blocks begin at
// multiples of the width of vectors: the results are those of the operations on whole tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "lockstep/optimizer.h"
#include "trainer/optimizers/weight_decay.h"

namespace lockstep::trainer {

// Thread: the training thread.
class ForeachOptimizer : public Optimizer {
 public:
  double base_lr() const override { return lr_; }
  void step(double lr) override;
  bool is_elementwise() const override { return true; }
  bool can_unfreeze() const override { return true; }
  NamedTensors state() const override;
  void load_state(const NamedTensors& state) override;

 protected:
  // A state may have one element for this many elements of the parameter.
  static constexpr int64_t kElementsPerScale = 256;

  // Of one update. All lists have the same length; `parameters` and the others may be blocks of
  // tensors, except scalars and states that are undefined.
  struct Lists {
    std::vector<at::Tensor> parameters, gradients;
    std::vector<std::vector<at::Tensor>> states;  // [kind], in the order of add_state()
    std::vector<size_t> indices;                  // in the list of parameters

    void clear();
  };

  struct DecayOptions {
    double weight_decay = 0;
    WeightDecay on = WeightDecay::All;
  };

  ForeachOptimizer(NamedTensors parameters, double lr, DecayOptions decay);

  // Adds a state called "<kind>.<parameter>"; returns its index in Lists::states. `make`: its first
  // value; undefined: the parameter has no such state.
  using Make = std::function<at::Tensor(const std::string& name, const at::Tensor& parameter)>;
  size_t add_state(const char* kind, const Make& make);
  // Like the parameter, filled with `value`.
  size_t add_like(const char* kind, double value = 0);
  // A float32 scalar on the CPU, or on the device of the parameter.
  size_t add_scalar(const char* kind, double value, bool on_device = false);
  // Undefined until begin_step() sets it with set_state(); load_state() accepts its absence.
  size_t add_late(const char* kind);

  const NamedTensors& parameters() const { return parameters_; }
  const at::Tensor& state_of(size_t kind, size_t parameter) const {
    return kinds_[kind].tensors[parameter];
  }
  void set_state(size_t kind, size_t parameter, at::Tensor value);

  // Called once per step, before update(), with whole tensors: for scalars such as step counts.
  virtual void begin_step(const Lists& /*lists*/, double /*lr*/) {}
  virtual void update(const Lists& lists, double lr, double weight_decay) = 0;
  // Whether update() may be called with blocks (Note [Blocks]).
  virtual bool uses_blocks() const { return true; }

 private:
  struct Kind {
    std::string name;
    bool is_late = false;
    std::vector<at::Tensor> tensors;  // of each parameter
  };
  void collect(bool decayed, bool all);
  void update_all(double lr, double weight_decay);
  void update_in_blocks(double lr, double weight_decay);
  void add_blocks(size_t i, int64_t& size, double lr, double weight_decay);

  NamedTensors parameters_;
  double lr_;
  DecayOptions decay_;
  std::vector<Kind> kinds_;
  Lists whole_, block_;  // members to reuse their memory
};

// The values of float32 scalars on the CPU, e.g. step counts.
std::vector<double> doubles_of(const std::vector<at::Tensor>& scalars);

// Throws Config unless there are two.
void verify_betas(const std::vector<double>& betas);

}  // namespace lockstep::trainer
