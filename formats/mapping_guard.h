// Protects against SIGBUS, which terminates the process when a page of a mapped file cannot be read
// because the file was truncated or its disk failed. While a mapping is guarded, such a page and
// all following pages read as zeros, and the guard records the failure.
//
// Implementation: a SIGBUS handler, installed with the first guard, maps zero pages in their place.
// Signals for other addresses are passed to the previous handler. Using pread() instead would need
// no handler, but would cost a system call per sample, which dominates for small samples.
#pragma once

#include <atomic>
#include <cstddef>

namespace lockstep::formats {

// Thread: has_failed() from any thread.
class MappingGuard {
 public:
  // Guards `size` bytes from `begin`, which must stay mapped for the lifetime of this object.
  MappingGuard(const void* begin, size_t size);
  ~MappingGuard();
  MappingGuard(const MappingGuard&) = delete;
  MappingGuard& operator=(const MappingGuard&) = delete;

  // Whether a read was served with zeros instead of file content.
  bool has_failed() const { return failed_; }

 private:
  const void* const begin_;
  std::atomic<bool> failed_ = false;
};

}  // namespace lockstep::formats
