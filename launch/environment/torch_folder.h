// Finds the LibTorch that this machine has, for programs that do not link it: the launcher of the
// trainer, `lockstep version` and the CMake package. Only the standard library. Call the functions
// before threads are started: they read and change the environment.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::launch {

struct TorchFolder {
  std::filesystem::path root;  // has include/ and lib/libtorch_cpu.so
  std::string version;         // "2.11.0+cu130"; empty if unknown
  std::string found_by;        // such as "VIRTUAL_ENV" or "python3 on PATH"
  bool old_abi = false;        // built with _GLIBCXX_USE_CXX11_ABI=0
};

// The installation that this program belongs to: the parent of the folder of its file. Throws
// Environment.
std::filesystem::path own_prefix();

// Whether `file` is a regular file that this process may execute.
bool is_program(const std::filesystem::path& file);

// The executable file `name` in the folders of PATH; empty if there is none. Empty entries of PATH,
// which stand for the working directory, are skipped.
std::filesystem::path program_on_path(const std::string& name);

// The LibTorch to use with a Lockstep that is installed in `prefix` and was built for version
// `built_for`: the first one with the same minor version, of
//   the environment variable LOCKSTEP_TORCH, which excludes the others;
//   the file lib/lockstep/torch-dir of `prefix`; an environment that `prefix` is;
//   VIRTUAL_ENV; CONDA_PREFIX; python3 on PATH; ~/.local; and what these Pythons import.
// A place is the folder of a torch package or LibTorch, its lib/, or an environment. Throws Config if
// LOCKSTEP_TORCH does not name a usable one, Environment if there is none.
TorchFolder find_torch(const std::filesystem::path& prefix, const std::string& built_for);

// Sets LOCKSTEP_TORCH, for find_torch() here and in child processes.
void name_torch(const std::string& place);

// Puts the libraries of `torch`, and Arrow's next to it, on the library path of a program that this
// process executes next. restore_library_path() is called there, so that its own child processes get
// the value from before.
void put_on_library_path(const TorchFolder& torch);
void restore_library_path();

// Sets for that program how long its threads spin (launch/environment/openmp_wait.h).
void set_spin_count();

}  // namespace lockstep::launch
