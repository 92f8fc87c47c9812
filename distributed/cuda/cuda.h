// Loads the CUDA part of LibTorch on demand: without a GPU it would cost a run 0.5 s and 230 MB.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep::distributed {

// True if this machine has an NVIDIA driver and a device, and CUDA_VISIBLE_DEVICES does not hide all of
// them. Loads nothing.
bool machine_has_gpu(const std::filesystem::path& devices = "/dev");

// Loads liblockstep_cuda.so with the CUDA part of LibTorch and NCCL, if they are there. Call it before
// any other use of LibTorch that depends on CUDA, such as at::manual_seed(): LibTorch looks for its
// CUDA part once. Errors are reported by use_gpu().
void load_gpu_support();

// For this process, as torch.use_deterministic_algorithms(True): operators give the same bits each
// time, and throw c10::Error if they cannot. Call it before use_gpu().
void use_deterministic_operators();

// Architecture of this machine's first GPU, e.g. "sm_90". Throws Config as use_gpu().
std::string gpu_architecture();

// Name of the GPU `index`, e.g. "NVIDIA H100 80GB HBM3". Call after use_gpu(). Empty: unknown.
std::string gpu_name(int index);

// Makes GPU `index` this thread's device, after load_gpu_support(). Throws Config: this build has no
// CUDA part, its libraries are missing, or there is no such GPU.
void use_gpu(int index);

}  // namespace lockstep::distributed
