// Which limit keeps a process from starting another thread or process.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

// "the control group /a allows 8 processes and threads (pids.max) and was reached: raise ...", or
// the limit with the least room. To be asked when a thread could not be started. The directories
// are for tests.
std::string describe_thread_limit(const std::filesystem::path& proc = "/proc",
                                  const std::filesystem::path& cgroups = "/sys/fs/cgroup");

}  // namespace lockstep
