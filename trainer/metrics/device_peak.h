// The most floating-point operations per second that a device can do, for train/mfu.
#pragma once

#include <optional>
#include <string>

namespace lockstep::trainer {

// Of a GPU by its name, e.g. "NVIDIA H100 80GB HBM3", from NVIDIA's data sheets: of tensor cores
// without sparsity for bf16 and fp16 (`is_half`), else of float32 without TF32. nullopt: unknown.
std::optional<double> peak_flops_of_gpu(const std::string& name, bool is_half);

}  // namespace lockstep::trainer
