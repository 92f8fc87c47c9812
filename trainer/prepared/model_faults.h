// Faults of a model, told as those of its author: which model, what it did, what is expected.
#pragma once

#include <c10/util/Exception.h>

#include <string_view>

#include "lockstep/error.h"
#include "lockstep/model.h"

namespace lockstep::trainer {

// One line about what LibTorch threw in `model` ("model 'mlp'"), without its stack. `batch`: what
// it was given; none: nothing. Config, since a restart does not help; also where the memory cannot
// be had, with its size. Errors of a GPU's driver and of peers stay what they are.
[[noreturn]] void rethrow_fault(std::string_view model, const Batch* batch,
                                const c10::Error& error);

// Calls `work`, a part of `model`, and tells LibTorch's errors as rethrow_fault().
template <class Work>
auto in_model(std::string_view model, const Batch* batch, Work&& work) {
  try {
    return work();
  } catch (const c10::Error& error) {
    rethrow_fault(model, batch, error);
  }
}

// What a model must return for a batch (lockstep/model.h).
struct ExpectedOutputs {
  bool has_targets = false;   // it has a name for them
  bool has_gradient = false;  // autograd follows the loss
  at::Device device = at::kCPU;
};

// Throws Config when `outputs` are something else.
void verify_outputs(std::string_view model, const Batch& batch, const Outputs& outputs,
                    const ExpectedOutputs& expected);

// Throws Config when a parameter or buffer holds no numbers (the meta device).
void verify_has_values(std::string_view model, const Model& module);

}  // namespace lockstep::trainer
