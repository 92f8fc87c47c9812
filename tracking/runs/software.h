// What a run was executed with, in <run>/software.json: {"lockstep": version, "libtorch": version,
// "nvidia_driver": version}. The Python client writes {"python", "packages": {name: version},
// "nvidia_driver"}. Members that are unknown are left out.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/config_value.h"

namespace lockstep::tracking {

// Of the kernel module, as in /proc/driver/nvidia/version; "" without one.
std::string nvidia_driver_version(
    const std::filesystem::path& file = "/proc/driver/nvidia/version");

// Replaces the file with `software` and the version of the driver. Throws Environment.
void write_software(const std::filesystem::path& run_dir, Json software);

// An empty object if the file does not exist or is corrupt.
Json read_software(const std::filesystem::path& run_dir);

}  // namespace lockstep::tracking
