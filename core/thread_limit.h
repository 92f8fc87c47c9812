// Finds the limit that prevents a process from starting more threads or processes.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

// Call when a thread could not be started. Returns e.g. "the control group /a allows 8 processes
// and threads (pids.max) and was reached: raise ...", or the limit with the least headroom. The
// arguments are for tests.
std::string describe_thread_limit(const std::filesystem::path& proc = "/proc",
                                  const std::filesystem::path& cgroups = "/sys/fs/cgroup");

}  // namespace lockstep
