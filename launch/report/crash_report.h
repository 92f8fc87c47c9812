// What a process that is about to die of its own fault (SIGSEGV, SIGFPE, SIGILL) says on stderr:
// the innermost functions, so that a plugin's author knows where to look. The process still dies of
// that signal, with a core file where those are on.
#pragma once

namespace lockstep::launch {

// For the rest of the process, in every thread. `program`: of static storage, begins the line.
void report_crashes(const char* program);

}  // namespace lockstep::launch
