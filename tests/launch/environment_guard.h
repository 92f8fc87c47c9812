// Sets and clears environment variables for one test, and restores all of them.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::launch {

class EnvironmentGuard {
 public:
  // The test starts with no variable of any launcher, whatever runs the test.
  EnvironmentGuard() {
    for (char** entry = environ; *entry; ++entry) saved_.emplace_back(*entry);
    for (const auto& entry : saved_) {
      const auto name = entry.substr(0, entry.find('='));
      for (const char* prefix : {"SLURM_", "OMPI_", "PMI_", "PMIX_", "MPI_", "PET_",
                                 "TORCHELASTIC_", "LOCKSTEP_", "MASTER_", "OMP_NUM_"})
        if (name.starts_with(prefix)) ::unsetenv(name.c_str());
    }
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
                             "NO_COLOR", "JOB_COMPLETION_INDEX", "NNODES"})
      ::unsetenv(name);
  }
  explicit EnvironmentGuard(std::initializer_list<std::pair<const char*, const char*>> variables)
      : EnvironmentGuard() {
    for (const auto& [name, value] : variables) set(name, value);
  }
  ~EnvironmentGuard() {
    ::clearenv();
    for (const auto& entry : saved_) {
      const auto equals = entry.find('=');
      ::setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
    }
  }
  EnvironmentGuard(const EnvironmentGuard&) = delete;
  EnvironmentGuard& operator=(const EnvironmentGuard&) = delete;

  void set(const char* name, const char* value) { ::setenv(name, value, 1); }

 private:
  std::vector<std::string> saved_;
};

}  // namespace lockstep::launch
