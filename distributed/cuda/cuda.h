// The CUDA half of LibTorch is loaded only when a GPU is asked for: it costs a CPU run 0.5 s and
// 230 MB.
#pragma once

#include <string>

namespace lockstep::distributed {

// True when this machine has an NVIDIA driver and a device. Loads nothing.
bool machine_has_gpu();

// What compiled code of this machine's first GPU is for, e.g. "sm_90". Throws Config as use_gpu().
std::string gpu_architecture();

// Loads liblockstep_cuda.so, which brings LibTorch's CUDA half and NCCL, and makes GPU `index` this
// thread's device. Throws Config: this build has no CUDA part, its libraries are missing, or there
// is no such GPU.
void use_gpu(int index);

}  // namespace lockstep::distributed
