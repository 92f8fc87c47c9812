// Sends gradients as 16-bit floats: half the traffic, 16-bit sums. Only files of distributed/
// include this.
#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>

#include "lockstep/data_parallel.h"

namespace lockstep::distributed {

// The arithmetic of Python's fp16_compress_hook and bf16_compress_hook
// (torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py): a bucket is cast, divided by the
// number of ranks, summed and cast back. `compression`: not None.
class CompressionHook final
    : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  CompressionHook(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                  GradientCompression compression);

  // Collective.
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override;

 private:
  at::ScalarType type_;
};

}  // namespace lockstep::distributed
