// The threads of OpenMP, with which LibTorch computes on the CPU.
#pragma once

namespace lockstep::trainer {

// Starts the threads that OpenMP uses for operators that the calling thread executes, before the
// first of them does: libgomp would end the process with exit code 1 if it cannot start one. Throws
// std::system_error then, as std::thread does; message_of() adds the limit that was reached. Unless
// OMP_NUM_THREADS is set, there are no more threads than launch::num_usable_cores().
void start_openmp_threads();

}  // namespace lockstep::trainer
