// `train.matmul`: the library that computes matrix products on CPUs.
#pragma once

#include "trainer/config/run_config.h"

namespace lockstep::trainer {

// With train.matmul: onednn, lets this process compute large matrix products of float32 on the CPU
// with oneDNN instead of the BLAS of LibTorch, until a run without it is prepared. The results differ by
// rounding. Throws Config if this has no effect, or if this LibTorch has no oneDNN. Not while another
// thread computes.
void choose_matmul(const RunConfig& config);

}  // namespace lockstep::trainer
