#include <dlfcn.h>
#include <netdb.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "core/system/child_process.h"
#include "launch/environment/torch_folder.h"
#include "launch/warm/template_process.h"
#include "lockstep/rank_env.h"
#include "lockstep/session.h"

namespace {

// LibTorch's static destructors take 0.1 s, to free memory that the kernel frees anyway. Static
// destructors and atexit handlers that are registered after this call, such as those of plugins, still
// run. Functions with __attribute__((destructor)) do not: preloaded profilers write their results there.
void skip_static_destructors() {
  if (lockstep::environment("LD_PRELOAD")) return;
  ::on_exit(
      [](int code, void*) {
        // After sync_with_stdio(false), these do not use the buffers of stdio.
        std::cout.flush();
        std::clog.flush();
        std::fflush(nullptr);
        std::_Exit(code);
      },
      nullptr);
}

}  // namespace

// LibTorch resolves the address of every peer to a name, for messages. A name server that does not
// answer would delay the start of each rank by 10 s. This function, which libraries use instead of that
// of libc, leaves addresses as they are.
extern "C" int getnameinfo(const sockaddr* address, socklen_t address_size, char* host,
                           socklen_t host_size, char* service, socklen_t service_size, int flags) {
  static const auto of_libc =
      reinterpret_cast<decltype(&::getnameinfo)>(::dlsym(RTLD_NEXT, "getnameinfo"));
  if (!of_libc) return EAI_FAIL;
  if ((flags & NI_NAMEREQD) == 0) flags |= NI_NUMERICHOST;
  return of_libc(address, address_size, host, host_size, service, service_size, flags);
}

int main(int argc, char** argv) {
  // If the parent has left it ignored, the exit status of children is lost.
  std::signal(SIGCHLD, SIG_DFL);
  lockstep::launch::restore_library_path();
  skip_static_destructors();
  if (!lockstep::launch::is_template(argc, argv)) return lockstep::trainer_main(argc, argv);
  const auto command = lockstep::launch::serve_as_template(argv);
  if (!command) return 0;
  auto words = lockstep::pointers_to(*command);
  return lockstep::trainer_main(static_cast<int>(command->size()), words.data());
}
