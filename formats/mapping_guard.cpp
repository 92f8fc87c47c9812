#include "formats/mapping_guard.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <map>

#include "core/system/mutex.h"

namespace lockstep::formats {
namespace {

struct GuardedMapping {
  uintptr_t end;
  std::atomic<bool>* failed;
};

struct GuardedMappings {
  Mutex mutex;
  std::map<uintptr_t, GuardedMapping> by_begin GUARDED_BY(mutex);
  struct sigaction before {};  // who handled SIGBUS before
};

// Never destroyed, because a signal can arrive during shutdown.
GuardedMappings& guarded_mappings() {
  static auto& mappings = *new GuardedMappings;
  return mappings;
}

// A thread that reads a mapped page holds no lock of this file or of the allocator, so that
// acquiring the lock here cannot deadlock.
bool replace_by_zeros(uintptr_t address) {
  auto& mappings = guarded_mappings();
  const MutexLock lock(mappings.mutex);
  auto at = mappings.by_begin.upper_bound(address);
  if (at == mappings.by_begin.begin() || address >= (--at)->second.end) return false;
  const auto page = address & ~(static_cast<uintptr_t>(::getpagesize()) - 1);
  at->second.failed->store(true);
  return ::mmap(reinterpret_cast<void*>(page), at->second.end - page, PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int before = errno;
  const bool is_access = info->si_code > 0;  // not sent by another process
  const bool replaced = is_access && replace_by_zeros(reinterpret_cast<uintptr_t>(info->si_addr));
  errno = before;
  if (replaced) return;
  const auto& previous = guarded_mappings().before;
  if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(signal, info, context);
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
    return previous.sa_handler(signal);
  ::sigaction(signal, &previous, nullptr);
  if (!is_access) ::raise(signal);  // a faulting access is repeated on return
}

void install_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigaction(SIGBUS, &action, &guarded_mappings().before);
  });
}

}  // namespace

MappingGuard::MappingGuard(const void* begin, size_t size) : begin_(begin) {
  install_once();
  const auto address = reinterpret_cast<uintptr_t>(begin);
  auto& mappings = guarded_mappings();
  const MutexLock lock(mappings.mutex);
  mappings.by_begin[address] = {address + size, &failed_};
}

MappingGuard::~MappingGuard() {
  auto& mappings = guarded_mappings();
  const MutexLock lock(mappings.mutex);
  mappings.by_begin.erase(reinterpret_cast<uintptr_t>(begin_));
}

}  // namespace lockstep::formats
