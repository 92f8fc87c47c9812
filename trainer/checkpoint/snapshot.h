// Copies of tensors in host memory that is used again and again: fresh memory costs page faults,
// which take several times as long as the copies.
#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/optimizer.h"

namespace lockstep::trainer {

// Thread: one at a time.
class Snapshot {
 public:
  // Makes room for copies of `tensors`, and touches all of it. Keeps the room that it has when that
  // is enough. Page-locked where tensors come from a GPU. Throws Environment when there is no
  // memory.
  void reserve(const NamedTensors& tensors);

  // Copies of `tensors`, contiguous, under their names, valid until the next call. Reserves what it
  // lacks.
  NamedTensors copy(const NamedTensors& tensors);

 private:
  at::Tensor memory_;  // bytes
};

}  // namespace lockstep::trainer
