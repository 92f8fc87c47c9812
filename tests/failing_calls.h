// Runs code in a thread in which some system calls fail, as at a limit of the system or on another file system.
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
#include <utility>

namespace lockstep {

// A seccomp filter of the calling thread: both calls fail. Returns whether it is active.
inline bool refuse_calls(unsigned first, unsigned second, unsigned reason) {
  std::array<sock_filter, 5> code = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | reason),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter{.len = code.size(), .filter = code.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Returns the exception of `body`, or null; nullopt: not run, since the system allows no filter.
template <class Body>
std::optional<std::exception_ptr> with_failing_calls(unsigned first, unsigned second,
                                                     unsigned reason, Body&& body) {
  std::optional<std::exception_ptr> error;
  std::thread([&] {
    if (!refuse_calls(first, second, reason)) return;
    error = nullptr;
    try {
      body();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  return error;
}

template <class Body>
std::optional<std::exception_ptr> without_new_threads(Body&& body) {
  return with_failing_calls(SYS_clone, SYS_clone3, EAGAIN, std::forward<Body>(body));
}

// Network file systems do not support flags of renameat2().
template <class Body>
std::optional<std::exception_ptr> without_rename_flags(Body&& body) {
  return with_failing_calls(SYS_renameat2, SYS_renameat2, EINVAL, std::forward<Body>(body));
}

}  // namespace lockstep
