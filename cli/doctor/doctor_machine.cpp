#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/doctor/doctor_findings.h"
#include "core/config/size_text.h"
#include "core/control_group.h"
#include "core/system/file_descriptor.h"
#include "launch/environment/worker_env.h"
#include "tracking/system/free_memory.h"

namespace lockstep::cli {
namespace {

constexpr uint64_t kLowMemory = 1'000'000'000;
constexpr rlim_t kMinOpenFiles = 1024;
constexpr uint32_t kToken = 0x10c45799;

// Whether a child process can map `memory` of this process through /proc, as ranks do.
bool child_maps(const FileDescriptor& memory) {
  const auto path = fmt::format("/proc/{}/fd/{}", ::getpid(), memory.get());
  const auto child = ::fork();
  if (child == 0) {
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    void* const mapped =
        file < 0 ? MAP_FAILED
                 : ::mmap(nullptr, sizeof kToken, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    const bool same = mapped != MAP_FAILED && std::memcmp(mapped, &kToken, sizeof kToken) == 0;
    ::_exit(same ? 0 : 1);
  }
  int status = 1;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return child > 0 && status == 0;
}

}  // namespace

Finding check_cores() {
  const auto usable = launch::num_usable_cores();
  const auto limit = cpu_limit();
  auto found = fmt::format("{} of {} usable", usable, ::sysconf(_SC_NPROCESSORS_ONLN));
  if (!limit) return {"cores", Health::Good, found};
  found += fmt::format("; the control group limits CPU time to {:.1f} cores", *limit);
  if (*limit >= 1) return {"cores", Health::Good, found};
  return {"cores", Health::Warning, found + ": ranks are throttled; raise the limit to 1 or more"};
}

Finding check_memory() {
  const auto memory = tracking::free_memory();
  const auto found = fmt::format("{} free, of {} {}", size_text(memory.bytes),
                                 memory.group_limit ? "the cgroup's" : "this machine's",
                                 size_text(memory.group_limit.value_or(memory.total)));
  if (memory.bytes >= kLowMemory) return {"memory", Health::Good, found};
  return {"memory", Health::Warning,
          found + ": low; a rank needs 250 MB plus several times its model"};
}

Finding check_open_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const auto found = fmt::format("at most {} per process", limit.rlim_max);
  if (limit.rlim_max >= kMinOpenFiles) return {"open files", Health::Good, found};
  return {"open files", Health::Warning,
          found +
              ": low; a launcher needs several per rank, a sink several per run; raise the hard "
              "limit (ulimit -Hn)"};
}

Finding check_shared_memory() {
  const char* const consequence =
      ": ranks of this host will communicate over loopback TCP (gloo), which is slower";
  const FileDescriptor memory(::memfd_create("lockstep-doctor", MFD_CLOEXEC));
  if (!memory.is_open() || ::pwrite(memory.get(), &kToken, sizeof kToken, 0) != sizeof kToken)
    return {"shared memory", Health::Warning,
            fmt::format("cannot be allocated: {}{}", std::strerror(errno), consequence)};
  if (!child_maps(memory))
    return {"shared memory", Health::Warning,
            fmt::format("a process cannot open memory of another through /proc{}", consequence)};
  const FileDescriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!handle.is_open())
    return {"shared memory", Health::Warning,
            "works, but this kernel has no pidfds: the death of a rank is detected only after the "
            "timeout, unless 'lockstep launch' started it"};
  return {"shared memory", Health::Good, "ranks of this host can map each other's memory"};
}

Finding check_clock() {
  timex state{};
  const auto status = ::adjtimex(&state);
  if (status < 0 || status == TIME_ERROR || (state.status & STA_UNSYNC) != 0)
    return {"clock", Health::Warning,
            "not synchronized according to the kernel (NTP): with several machines, times in logs "
            "and charts may not match"};
  return {"clock", Health::Good,
          fmt::format("synchronized, within {:.0f} ms", static_cast<double>(state.maxerror) / 1e3)};
}

}  // namespace lockstep::cli
