#include <cstdio>
#include <cstdlib>

#include "core/system/child_process.h"
#include "launch/environment/torch_folder.h"
#include "launch/warm/template_process.h"
#include "lockstep/session.h"

namespace {

// LibTorch's static destructors take 0.1 s, to free memory that the kernel frees anyway. Those of
// plugins, and other handlers that are registered later, run before this one.
void skip_static_destructors() {
  ::on_exit(
      [](int code, void*) {
        std::fflush(nullptr);
        std::_Exit(code);
      },
      nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::launch::restore_library_path();
  skip_static_destructors();
  if (!lockstep::launch::is_template(argc, argv)) return lockstep::trainer_main(argc, argv);
  const auto command = lockstep::launch::serve_as_template(argv);
  if (!command) return 0;
  auto words = lockstep::pointers_to(*command);
  return lockstep::trainer_main(static_cast<int>(command->size()), words.data());
}
