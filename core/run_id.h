// Run ids, which name run directories and are arguments of `--resume` and `lockstep runs`.
#pragma once

#include <string>

namespace lockstep {

// A new id such as "mnist-20261121-060309-4f2a9c": name, UTC time, random suffix (a sweep starts
// many runs per second). In the name, sequences of characters other than [A-Za-z0-9_.-] are
// replaced with one '-', or removed at the end; a name that starts with '.' or '-' is prefixed with
// "run".
std::string new_run_id(const std::string& name);

// The id of a scheduler job's run, e.g. "mnist-slurm-1234-0". Every process of the job, and a later
// start of the same job, derives the same id. `job`: consists of [A-Za-z0-9_.-].
std::string job_run_id(const std::string& name, const std::string& job);

// Whether `text` is a non-empty string of [A-Za-z0-9_.-] that does not start with '.', and thus
// safe as a directory name.
bool is_run_id(const std::string& text);

// What is_run_id() expects, for messages; suggests the end of a path.
std::string expected_run_id(const std::string& text);

}  // namespace lockstep
