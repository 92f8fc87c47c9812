#include "launch/environment/mpi_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "lockstep/rank_env.h"

namespace lockstep::launch {
namespace {

struct Process {
  std::string name;
  pid_t parent = 0;
};

// From /proc/<pid>/stat, "17 (name) S 1 ...": a name may contain blanks and parentheses.
std::optional<Process> read_process(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const auto open = text.find('('), close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  Process process{.name = text.substr(open + 1, close - open - 1)};
  std::istringstream rest(text.substr(close + 1));
  char state = 0;
  if (!(rest >> state >> process.parent)) return std::nullopt;
  return process;
}

}  // namespace

std::optional<std::string> openmpi_job() {
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"})
    if (const auto job = environment(name)) return "openmpi-" + *job;
  return std::nullopt;
}

std::string hydra_job() {
  // There may be a script between Hydra and the rank.
  for (pid_t pid = ::getppid(); pid > 1;) {
    const auto process = read_process(pid);
    if (!process) break;
    if (process->name.starts_with("hydra_")) return fmt::format("hydra-{}", pid);
    pid = process->parent;
  }
  return fmt::format("hydra-{}", ::getppid());
}

}  // namespace lockstep::launch
