// lockstep-trainer of an installation: finds LibTorch and becomes lib/lockstep/lockstep-trainer, with
// its libraries on the library path. Links neither LibTorch nor the rest of Lockstep, to be quick.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "launch/environment/torch_folder.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

// Removes --torch DIR, if it is the first argument.
void take_torch_option(int argc, char** argv) {
  if (argc < 2 || std::strcmp(argv[1], "--torch") != 0) return;
  if (argc < 3) throw config_error("--torch needs a directory");
  name_torch(argv[2]);
  for (int i = 3; i <= argc; ++i) argv[i - 2] = argv[i];
}

void become_trainer(int argc, char** argv) {
  take_torch_option(argc, argv);
  const auto prefix = own_prefix();
  put_on_library_path(find_torch(prefix, LOCKSTEP_TORCH_VERSION));
  set_spin_count();
  const auto program = prefix / "lib" / "lockstep" / "lockstep-trainer";
  ::execv(program.c_str(), argv);
  throw config_error("cannot start '" + program.string() + "': " + std::strerror(errno));
}

}  // namespace
}  // namespace lockstep::launch

int main(int argc, char** argv) {
  try {
    lockstep::launch::become_trainer(argc, argv);
  } catch (const lockstep::Error& error) {
    std::fprintf(stderr, "lockstep-trainer: error: %s\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep-trainer: error: %s\n", error.what());
  }
  return static_cast<int>(lockstep::ErrorKind::Bug);
}
