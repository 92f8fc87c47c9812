// Part of liblockstep_cuda.so: LaunchGraph based on LibTorch's CUDAGraph.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include "distributed/cuda/launch_graph.h"

namespace lockstep::distributed {
namespace {

// Memory pool shared by all graphs of this process: they are replayed one at a time, so their
// temporaries may overlap.
at::cuda::MempoolId_t common_pool() {
  static const auto pool = at::cuda::graph_pool_handle();
  return pool;
}

at::CUDAGeneratorImpl& random_generator(c10::DeviceIndex device) {
  return *at::check_generator<at::CUDAGeneratorImpl>(
      at::cuda::detail::getDefaultCUDAGenerator(device));
}

class CudaGraph final : public LaunchGraph {
 public:
  std::vector<at::Tensor> record(const Body& body) override {
    const auto device = c10::cuda::current_device();
    auto& generator = random_generator(device);
    const auto seed = generator.current_seed(), offset = generator.philox_offset_per_thread();
    c10::cuda::device_synchronize();
    // The default stream cannot be captured.
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool(false, device));
    try {
      // Thread-local, because loader threads allocate page-locked memory meanwhile.
      graph_.capture_begin(common_pool(), cudaStreamCaptureModeThreadLocal);
      auto outputs = body();
      graph_.capture_end();
      return outputs;
    } catch (...) {
      abandon(device);
      restore(generator, device, seed, offset);
      throw;
    }
  }

  void replay() override { graph_.replay(); }

 private:
  // Cleans up a capture that failed at any point.
  void abandon(c10::DeviceIndex device) {
    attempt([&] { graph_.capture_end(); });
    attempt([&] { c10::cuda::CUDACachingAllocator::endAllocateToPool(device, common_pool()); });
    static_cast<void>(cudaGetLastError());
  }

  template <class Act>
  static void attempt(const Act& act) {
    try {
      act();
    } catch (const std::exception&) {  // was not started, or has ended already
    }
  }

  // After a failed capture the generator is still in capture mode; a new state resets it.
  static void restore(at::CUDAGeneratorImpl& generator, c10::DeviceIndex device, uint64_t seed,
                      uint64_t offset) {
    generator.graphsafe_set_state(c10::make_intrusive<at::CUDAGeneratorImpl>(
        device, c10::make_intrusive<at::CUDAGeneratorState>(seed, offset)));
  }

  at::cuda::CUDAGraph graph_;
};

}  // namespace
}  // namespace lockstep::distributed

// The caller owns the result.
extern "C" lockstep::distributed::LaunchGraph* lockstep_make_cuda_graph() {
  return new lockstep::distributed::CudaGraph;
}
