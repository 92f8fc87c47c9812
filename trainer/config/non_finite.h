// `train.non_finite`: how training handles a loss or a gradient norm that is not finite.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/batch.h"
#include "lockstep/config_value.h"
#include "lockstep/named_tensors.h"
#include "lockstep/optimizer.h"
#include "lockstep/world.h"

namespace lockstep::trainer {

enum class NonFinitePolicy { Stop, Skip, Ignore };
constexpr auto choices(NonFinitePolicy) { return std::array{"stop", "skip", "ignore"}; }

// Records what this rank has observed. The ranks agree on it in the vote of a step (kNonFinite):
//
// - stop: the vote begins before the step computes, so it carries the observations of the previous
//   step: the run ends one step after the value. Values on a GPU are checked only where they are
//   read anyway, when metrics are recorded and before a checkpoint: no step waits for the device.
// - skip: the vote begins after the backward pass and ends before the optimizer, so each step waits
//   for the device and for the vote.
//
// Thread: the training thread.
class NonFiniteWatch {
 public:
  static constexpr int64_t kMaxSkippedInARow = 20;

  explicit NonFiniteWatch(NonFinitePolicy policy) : policy_(policy) {}

  bool stops() const { return policy_ == NonFinitePolicy::Stop; }
  bool skips() const { return policy_ == NonFinitePolicy::Skip; }

  // Records the scalar `value` if it is not finite; with `stop`, a value on a GPU is not checked.
  // `find_cause` is called then, and its result is part of the message. Returns false if it was
  // checked and is not finite.
  bool observe(const char* what, const at::Tensor& value, int64_t step,
               const std::function<std::string()>& find_cause = nullptr);
  // Records `value` if it is not finite and nothing is recorded yet.
  void note(const std::string& what, double value, int64_t step);
  // With `stop`: records the first weight that is not finite. Waits for the device.
  void observe_weights(const NamedTensors& weights, int64_t step);
  // With `skip`: records a gradient that is not finite. Waits for the device.
  void observe_gradients(const std::vector<at::Tensor>& gradients, int64_t step);

  // Whether this rank has something to report in the next vote.
  bool has_observed() const { return seen_.has_value(); }
  void clear() { seen_.reset(); }
  // The step was skipped on all ranks. Throws Config, on all of them, when too many were skipped in
  // a row: training cannot make progress.
  void count_skipped(int64_t step);
  void count_taken() { skipped_in_a_row_ = 0; }
  // Returns the number of steps skipped since the last call.
  int64_t take_skipped();

  // Collective, when the vote carries kNonFinite: throws Config on all ranks, with the same
  // message, naming the first step with such a value and, of the ranks that observed it in that
  // step, the lowest one; a loss precedes the gradients of the same step.
  [[noreturn]] void stop(World& world) const;

 private:
  struct Seen {
    std::string what;
    double value = 0;
    int64_t step = 0;
    std::string cause;  // empty: unknown
  };
  NonFinitePolicy policy_;
  std::optional<Seen> seen_;  // the first
  int64_t skipped_ = 0, skipped_in_a_row_ = 0;
};

// Why a loss of `batch` is not finite: "field 'image' of sample 51 is not finite", or the first of
// the parameters that is not, or neither. `parameters`: none if this rank does not have them.
std::string cause_of_loss(const Batch& batch, const NamedTensors& parameters);

}  // namespace lockstep::trainer
