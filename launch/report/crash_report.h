// Prints the innermost functions to stderr when the process crashes (SIGSEGV, SIGFPE, SIGILL), so
// that the author of a plugin can find the cause. The process still dies of the signal, with a core
// file if those are enabled.
#pragma once

namespace lockstep::launch {

// For the rest of the process, in every thread. `program`: prefix of the line; static storage.
void report_crashes(const char* program);

}  // namespace lockstep::launch
