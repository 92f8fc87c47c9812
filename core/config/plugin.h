// Plugins: shared objects whose static initializers register parts. A plugin runs inside the
// program, so it must have been built for the same interface and the same LibTorch. Its stamp is
// read from the file before any of its code runs.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

// The stamp of this build: what a plugin must carry to be loaded.
// `torch_version`: of the LibTorch the program runs with; empty for programs without it.
std::string plugin_stamp(const std::string& torch_version);

// Loads a plugin for the rest of the process. Throws Config: missing, no shared object, no stamp,
// another stamp (both are named), or the dynamic linker's own reason. Thread: before anything else
// uses the registries.
void load_plugin(const std::filesystem::path& path, const std::string& torch_version);

// For an error about a part that there is not: " (loaded plugins: a.so, b.so)"; empty without any.
std::string told_plugins();

}  // namespace lockstep
