// Part of liblockstep_cuda.so, which links against the CUDA part of LibTorch.
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <chrono>

// Returns an owned reference (to be reclaimed).
extern "C" c10d::Backend* lockstep_make_nccl_backend(const c10::intrusive_ptr<c10d::Store>* store,
                                                     int rank, int world_size, int64_t timeout_ms) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = std::chrono::milliseconds(timeout_ms);
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(*store, rank, world_size, options).release();
}
