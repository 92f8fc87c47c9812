// A page of a mapped file that cannot be read, because the file was cut or its disk fails, is a
// SIGBUS, which would end the process. While a mapping is guarded, such a page and all behind it
// read as zeros instead, and the guard knows.
//
// How: a handler of SIGBUS, installed with the first guard, puts memory of zeros in the place of
// the pages. Signals for other addresses go to whoever handled them before. Reading through pread()
// instead would need no handler, but costs a system call per sample, which for small samples is
// most of the time.
#pragma once

#include <atomic>
#include <cstddef>

namespace lockstep::formats {

// Thread: has_failed() from any thread.
class MappingGuard {
 public:
  // Guards `size` bytes from `begin`, which stay mapped while this lives.
  MappingGuard(const void* begin, size_t size);
  ~MappingGuard();
  MappingGuard(const MappingGuard&) = delete;
  MappingGuard& operator=(const MappingGuard&) = delete;

  // True once something that was read came of no file.
  bool has_failed() const { return failed_; }

 private:
  const void* const begin_;
  std::atomic<bool> failed_ = false;
};

}  // namespace lockstep::formats
