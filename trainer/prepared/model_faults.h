// Errors in a model's code, reported to its author: which model, what it did, what is expected.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>
#include <string_view>

#include "lockstep/error.h"
#include "lockstep/model.h"

namespace lockstep::trainer {

// Throws Config with one line about the exception that is being handled, which was thrown in `model`
// ("model 'mlp'"): for LibTorch's without the stack. `batch`: the model's input; null: none. Out of
// memory is Config too, with the size, since a restart does not help. An Error, errors of a GPU's
// driver and of peers, and of starting threads are rethrown unchanged.
[[noreturn]] void rethrow_fault(std::string_view model, const Batch* batch,
                                const std::exception& error);

// Calls `work`, a part of `model`, and converts exceptions with rethrow_fault().
template <class Work>
auto in_model(std::string_view model, const Batch* batch, Work&& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    rethrow_fault(model, batch, error);
  }
}

// As in_model(), of another part of the run file, e.g. `kind` "optimizer". Empty `name`: of none,
// exceptions are rethrown unchanged.
template <class Work>
auto in_part(std::string_view kind, std::string_view name, Work&& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    if (name.empty()) throw;
    rethrow_fault(std::string(kind) + " '" + std::string(name) + "'", nullptr, error);
  }
}

// Calls `work`, which allocates memory for `model` besides its batches: weights, the optimizer's
// state. Throws Config if a GPU has too little; other errors are rethrown unchanged.
template <class Work>
auto in_gpu_memory(std::string_view model, Work&& work) {
  try {
    return work();
  } catch (const c10::OutOfMemoryError& error) {
    rethrow_fault(model, nullptr, error);
  }
}

// What a model must return for a batch (lockstep/model.h).
struct ExpectedOutputs {
  bool has_targets = false;   // target_name() is set
  bool has_gradient = false;  // the loss requires grad
  at::Device device = at::kCPU;
};

// Throws Config unless `outputs` are as expected.
void verify_outputs(std::string_view model, const Batch& batch, const Outputs& outputs,
                    const ExpectedOutputs& expected);

// Model::count_targets(), for models with a target_name(). Throws Config unless it is a whole number.
at::Tensor count_targets(std::string_view title, const Model& model, const Batch& batch);

// Throws Config when a parameter or buffer has no values (the meta device).
void verify_has_values(std::string_view model, const Model& module);

}  // namespace lockstep::trainer
