// A port that all processes of a job derive from the name of the job. Pure.
#pragma once

#include <string_view>

namespace lockstep::launch {

// 15000 to 29999, which is below the range of ephemeral ports. Two jobs on one host may get the
// same port: the second fails with an error that names it, and can set MASTER_PORT.
int job_port(std::string_view job);

}  // namespace lockstep::launch
