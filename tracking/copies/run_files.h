// The files of a run directory that are copied to a collector, in addition to the event logs: those
// that describe the run and its outcome. Not copied: checkpoints, profiles, code.json (code stays
// here), logs/ (event logs have the lines that the ranks printed), and the state of sinks, which
// belongs to this machine.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::tracking {

// A run with a larger one is not sent.
inline constexpr size_t kMaxRunFileBytes = 256u << 10;

// Whether a file of this name, relative to the run directory, is copied: "run.json",
// "ends/launcher-00000.json". Any text is safe.
bool is_run_file_name(std::string_view name);

// Whether the file may disappear from a run directory: a resumed run has no outcome.
bool is_removable_run_file(std::string_view name);

// Whether `bytes` can be the content of the file: JSON or YAML. A program could load other content,
// such as a shared object, if another file of the run names it as a plugin.
bool is_run_file_content(std::string_view name, const std::string& bytes);

// The existing ones, by name. No symbolic links. Throws Environment if a directory cannot be listed.
std::vector<std::string> run_files(const std::filesystem::path& run_dir);

}  // namespace lockstep::tracking
