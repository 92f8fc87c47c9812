// A fake of NVIDIA's library: has the functions used, with the vendor's names and layouts, and
// behaves as a test configures it.
#pragma once

#include <atomic>

namespace lockstep::tracking {

struct FakeNvml {
  std::atomic<int> init_result = 0;  // NVML's codes: 9 no driver
  std::atomic<unsigned> num_gpus = 2;
  std::atomic<int> lost_gpu = -1;       // returns 15, GPU is lost
  std::atomic<bool> name_only = false;  // everything but the memory returns 3, not supported
  std::atomic<unsigned> process = 0;    // uses 5,000,000 bytes of every GPU
  std::atomic<bool> hang = false;       // a call does not return until it is false again
  std::atomic<int> num_hanging = 0;     // calls that wait for that
  std::atomic<int> num_inits = 0, num_shutdowns = 0;
};

}  // namespace lockstep::tracking
