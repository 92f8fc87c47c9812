#include "tracking/log/mapped_append.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace lockstep::tracking {
namespace {

constexpr uint64_t kFirstReservation = 64u << 10, kMaxReservationBytes = 4u << 20;

uint64_t page_size() {
  static const auto size = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

uint64_t page_begin(uint64_t offset) { return offset / page_size() * page_size(); }
uint64_t page_end(uint64_t offset) { return page_begin(offset + page_size() - 1); }

}  // namespace

MappedAppend::MappedAppend(FileDescriptor file, uint64_t length, const std::filesystem::path& path)
    : file_(std::move(file)), path_(path), length_(length), next_size_(kFirstReservation) {}

MappedAppend::~MappedAppend() { close(false); }

std::byte* MappedAppend::reserve(size_t size, size_t spare) {
  if (!file_.is_open()) return nullptr;
  if (length_ + size + spare > window_end_ && !grow(size + spare)) return nullptr;
  failure_.clear();
  return window_ + (length_ - window_begin_);
}

// A nearly full disk may still have space for the few pages needed now.
bool MappedAppend::grow(size_t size) {
  const auto needed = page_end(length_ + size);
  const auto wanted = std::max(needed, page_end(length_ + next_size_));
  const auto end = allocate(wanted) ? wanted : allocate(needed) ? needed : 0;
  if (end == 0) {
    failure_ = fmt::format("cannot reserve {} KiB for {}: {}", (needed - page_begin(length_)) >> 10,
                           path_.string(), std::strerror(errno));
    return false;
  }
  next_size_ = std::min(next_size_ * 2, kMaxReservationBytes);
  return map(end);
}

bool MappedAppend::allocate(uint64_t end) {
  const auto begin = page_begin(length_);
  int error = EINTR;
  for (int attempt = 0; attempt < 100 && error == EINTR; ++attempt)
    error =
        ::posix_fallocate(file_.get(), static_cast<off_t>(begin), static_cast<off_t>(end - begin));
  if (error == 0) return true;
  // Some file systems keep the blocks that they allocated before the failure.
  if (::ftruncate(file_.get(), static_cast<off_t>(std::max(length_, window_end_)))) error = errno;
  errno = error;
  return false;
}

bool MappedAppend::map(uint64_t end) {
  unmap();
  const auto begin = page_begin(length_);
  void* memory = ::mmap(nullptr, end - begin, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(),
                        static_cast<off_t>(begin));
  if (memory == MAP_FAILED) {
    failure_ = fmt::format("cannot map {}: {}", path_.string(), std::strerror(errno));
    return false;
  }
  window_ = static_cast<std::byte*>(memory);
  window_begin_ = begin;
  window_end_ = end;
  return true;
}

void MappedAppend::unmap() noexcept {
  if (window_) ::munmap(window_, window_end_ - window_begin_);
  window_ = nullptr;
  window_begin_ = window_end_ = 0;
}

void MappedAppend::close(bool durable) noexcept {
  if (!file_.is_open()) return;
  unmap();
  // Best effort: trailing zeros and an unsynced file read the same.
  if (::ftruncate(file_.get(), static_cast<off_t>(length_)) == 0 && durable) ::fsync(file_.get());
  file_.close();
  failure_ = path_.string() + " is closed";
}

}  // namespace lockstep::tracking
