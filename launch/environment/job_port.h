// A port that every process of a job finds by itself from what names the job. Pure.
#pragma once

#include <string_view>

namespace lockstep::launch {

// From 15000 to 29999: below the range from which kernels hand out ports, and not torchrun's 29500
// more often than any other. Two jobs of one host may get the same one; whoever comes second fails
// with an error that names the port, and MASTER_PORT decides.
int job_port(std::string_view job);

}  // namespace lockstep::launch
