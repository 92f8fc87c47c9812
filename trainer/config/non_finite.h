// `train.non_finite`: what a training does when a loss or a gradient norm is not finite.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/config_value.h"
#include "lockstep/optimizer.h"
#include "lockstep/world.h"

namespace lockstep::trainer {

enum class NonFinitePolicy { Stop, Skip, Ignore };
constexpr auto choices(NonFinitePolicy) { return std::array{"stop", "skip", "ignore"}; }

// Notes what this rank has seen. The ranks agree on it in the vote of a step (kNonFinite):
//
// - stop: the vote begins before the step computes, so it carries what the step before has seen:
//   the run ends one step after the value. Values on a GPU are looked at only where they are read
//   anyway, when metrics are recorded and before a checkpoint: no step waits for the device.
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

  // Notes the scalar `value` if it is not finite; with `stop`, one on a GPU is not looked at.
  // Returns false if it was looked at and is not finite.
  bool look(const char* what, const at::Tensor& value, int64_t step);
  // Notes `value` if it is not finite and the first one.
  void note(const char* what, double value, int64_t step);
  // With `skip`: notes that a gradient is not finite. Waits for the device.
  void look_at_gradients(const NamedTensors& parameters, int64_t step);

  // Whether this rank has to tell the others.
  bool has_news() const { return seen_.has_value(); }
  void forget() { seen_.reset(); }
  // The step was skipped on all ranks. Throws Config, on all of them, when too many in a row were:
  // no step will ever count again.
  void count_skipped(int64_t step);
  void count_taken() { skipped_in_a_row_ = 0; }
  // Skipped steps since the last call.
  int64_t take_skipped();

  // Collective, when the vote says that some rank has news: throws Config on all ranks, with the
  // same message, about the lowest of those ranks.
  [[noreturn]] void stop(World& world) const;

 private:
  struct Seen {
    std::string what;
    double value = 0;
    int64_t step = 0;
  };
  NonFinitePolicy policy_;
  std::optional<Seen> seen_;  // the first
  int64_t skipped_ = 0, skipped_in_a_row_ = 0;
};

}  // namespace lockstep::trainer
