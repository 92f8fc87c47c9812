// What to tell when the part of a launch on another host did not begin: what ssh or the host said,
// and what to do. Pure.
#pragma once

#include <string>

#include "core/system/child_process.h"
#include "lockstep/error.h"

namespace lockstep::launch {

// `program`: the path of `lockstep` that was asked for there. `said`: the last line on standard
// error. The error names the host; Config where only a person can mend it, else Environment.
Error start_failure(const std::string& host, const std::string& program, const ProcessExit& exit,
                    const std::string& said);

}  // namespace lockstep::launch
