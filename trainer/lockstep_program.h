// The program `lockstep`, which feeds the sinks of a run and shows its results.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace lockstep::trainer {

// In the folder of this program, or in bin/ if this is lib/lockstep/; else that of the launcher; else
// the one on PATH. Empty if there is none. `launcher`: RankEnv::launcher.
std::filesystem::path lockstep_program(int64_t launcher);

// How a user calls `program`: its name if PATH finds it, else its path.
std::string shown_program(const std::filesystem::path& program);

}  // namespace lockstep::trainer
