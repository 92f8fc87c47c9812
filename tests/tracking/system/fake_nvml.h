// A library that stands for NVIDIA's: it has the functions that are asked for, under the vendor's
// names and with the vendor's layouts, and does what a test tells it.
#pragma once

#include <atomic>

namespace lockstep::tracking {

struct FakeNvml {
  std::atomic<int> init_result = 0;  // NVML's codes: 9 no driver
  std::atomic<unsigned> num_gpus = 2;
  std::atomic<int> lost_gpu = -1;       // answers with 15, GPU is lost
  std::atomic<bool> name_only = false;  // everything but the memory answers 3, not supported
  std::atomic<unsigned> process = 0;    // holds 5,000,000 bytes of every GPU
  std::atomic<bool> hang = false;       // a call does not return until it is false again
  std::atomic<int> num_hanging = 0;     // calls that wait for that
  std::atomic<int> num_inits = 0, num_shutdowns = 0;
};

}  // namespace lockstep::tracking
