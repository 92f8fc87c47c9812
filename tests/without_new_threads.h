// Runs code in a thread that can start neither threads nor processes, as at a limit of the system.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <exception>
#include <optional>
#include <thread>

namespace lockstep {

// A seccomp filter of the calling thread: clone() fails with EAGAIN. Returns whether it is active.
inline bool refuse_new_threads() {
  std::array<sock_filter, 5> code = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter{.len = code.size(), .filter = code.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Returns the exception of `body`, or null; nullopt: not run, since the system allows no filter.
template <class Body>
std::optional<std::exception_ptr> without_new_threads(Body&& body) {
  std::optional<std::exception_ptr> error;
  std::thread([&] {
    if (!refuse_new_threads()) return;
    error = nullptr;
    try {
      body();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  return error;
}

}  // namespace lockstep
