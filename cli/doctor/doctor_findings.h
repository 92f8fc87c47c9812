// The checks of `lockstep doctor`. Each exercises one thing that training needs from this machine,
// in the way training uses it, and returns a one-line finding. They do not throw, wait only for
// seconds (up to 30 for the trainer to start), and leave no files.
#pragma once

#include <filesystem>

#include "core/findings.h"

namespace lockstep::cli {

// This machine: cores, memory, open files, shared memory between ranks, the clock.
Finding check_cores();
Finding check_memory();
Finding check_open_files();
Finding check_shared_memory();
Finding check_clock();

// Run directory, and temporary directory, from which compiled models are loaded.
Finding check_runs_directory(const std::filesystem::path& directory);
Finding check_temporary_directory();

// Network: how ranks find each other.
Finding check_host_name();
Finding check_loopback();

// Environment variables of launchers, the trainer, GPUs.
Finding check_environment();
Finding check_trainer();
Finding check_gpus();

}  // namespace lockstep::cli
