// The name a run is kept under: its directory, and what `--resume` and `lockstep runs` take.
#pragma once

#include <string>

namespace lockstep {

// "mnist-20261121-060309-4f2a9c": name, UTC time, random (a sweep starts many runs within one
// second). Other characters than [A-Za-z0-9_.-] become '-', a row of them one, and none at the end;
// a name that begins with '.' or '-' gets "run" in front.
std::string new_run_id(const std::string& name);

// "mnist-slurm-1234-0": the run of a scheduler's job, which every process of it, and a later start
// of the same job, finds without asking. `job`: of the same characters.
std::string job_run_id(const std::string& name, const std::string& job);

// True for a non-empty id of [A-Za-z0-9_.-] that does not begin with '.': safe as the name of a
// directory.
bool is_run_id(const std::string& text);

}  // namespace lockstep
