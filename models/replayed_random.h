// Draws the same random numbers again, for activation checkpointing.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <utility>

namespace lockstep::models {

// Sets the state of a generator for a scope. Thread: that of the generator.
class ReplayedRandom {
 public:
  ReplayedRandom(at::Generator generator, const at::Tensor& state)
      : generator_(std::move(generator)), before_(generator_.get_state()) {
    generator_.set_state(state);
  }
  ~ReplayedRandom() { generator_.set_state(before_); }
  ReplayedRandom(const ReplayedRandom&) = delete;
  ReplayedRandom& operator=(const ReplayedRandom&) = delete;

 private:
  at::Generator generator_;
  at::Tensor before_;
};

}  // namespace lockstep::models
