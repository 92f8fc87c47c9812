// What `lockstep doctor` looks at. Each function tries one thing that training needs from this
// machine, the way training will use it, and says in one line what it found; none of them throws,
// waits longer than some seconds, or leaves anything behind.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep::cli {

enum class Health {
  Good,
  Warning,  // training works, but slower or with less than one may think
  Problem,  // training, or a part of it, does not work
};

struct Finding {
  std::string what;
  Health health = Health::Good;
  std::string text;  // with what to do about it, unless it is good
};

// This machine: cores, memory, open files, shared memory between ranks, the clock.
Finding look_at_cores();
Finding look_at_memory();
Finding look_at_open_files();
Finding look_at_shared_memory();
Finding look_at_clock();

// Where runs go, and temporary files, out of which compiled models are loaded.
Finding look_at_runs_directory(const std::filesystem::path& directory);
Finding look_at_temporary_directory();

// How ranks find each other.
Finding look_at_host_name();
Finding look_at_loopback();

// What is started, and by whom.
Finding look_at_environment();
Finding look_at_trainer();
Finding look_at_gpus();

}  // namespace lockstep::cli
