// Plugins: shared objects whose static initializers register parts. A plugin must be built for the
// same plugin interface and the same minor version of LibTorch as the program. Its stamp is read
// from the file and verified before any of its code runs.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

// The stamp that a plugin must have to be loaded into this build. `torch_version`: the version of
// LibTorch that the program uses; empty for programs without LibTorch.
std::string plugin_stamp(const std::string& torch_version);

// Loads a plugin for the lifetime of the process. Throws Config: the file is missing or not a
// shared object, has no stamp or a different one (the message has both), or the dynamic linker
// fails. Thread: call before any other use of the registries.
void load_plugin(const std::filesystem::path& path, const std::string& torch_version);

// load_plugin(), for a plugin of sinks too, which is built without LibTorch.
void load_any_plugin(const std::filesystem::path& path, const std::string& torch_version);

// For errors about unknown parts: " (loaded plugins: a.so, b.so)"; empty if none are loaded.
std::string describe_loaded_plugins();

}  // namespace lockstep
