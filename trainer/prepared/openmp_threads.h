// The threads of OpenMP, with which LibTorch computes on the CPU.
#pragma once

namespace lockstep::trainer {

// Starts the threads that OpenMP uses for operators that the calling thread executes, before the
// first of them does: libgomp would end the process with exit code 1 if it cannot start one. Throws
// std::system_error then, as std::thread does; message_of() adds the limit that was reached.
void start_openmp_threads();

}  // namespace lockstep::trainer
