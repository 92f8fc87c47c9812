// The error for a host on which a launch could not start: the message of ssh or of the host, and
// the remedy. Pure.
#pragma once

#include <string>

#include "core/system/child_process.h"
#include "lockstep/error.h"

namespace lockstep::launch {

// `program`: the path of `lockstep` on the host. `last_line`: the last line on standard error. The
// error names the host; Config if the user must fix it, else Environment.
Error start_failure(const std::string& host, const std::string& program, const ProcessExit& exit,
                    const std::string& last_line);

}  // namespace lockstep::launch
