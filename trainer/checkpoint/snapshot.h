// Copies tensors to host memory that is reused: page faults of fresh memory take several times as
// long as the copies.
#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/optimizer.h"
#include "trainer/checkpoint/safetensors.h"

namespace lockstep::trainer {

// Thread: one at a time.
class Snapshot {
 public:
  // Reserves memory for copies of `tensors`, and touches all of it. Keeps the current memory if it
  // is large enough. Page-locked if a tensor is on a GPU. Throws Environment when out of memory.
  void reserve(const NamedTensors& tensors);

  // Returns contiguous copies of `tensors` with their names, valid until the next call. Reserves
  // memory if necessary. `fetch`: for tensors of the meta device.
  NamedTensors copy(const NamedTensors& tensors, const FetchTensor& fetch = {});

 private:
  at::Tensor memory_;  // bytes
};

}  // namespace lockstep::trainer
