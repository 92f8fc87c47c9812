#include "distributed/shm/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::distributed::shm {

Segment::Segment(FileDescriptor file, size_t bytes) : file_(std::move(file)), bytes_(bytes) {
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (mapped == MAP_FAILED) throw errno_error("cannot map shared memory");
  data_ = static_cast<std::byte*>(mapped);
}

Segment Segment::create(size_t bytes) {
  auto segment = create_sparse(bytes);
  segment.reserve(0, bytes);
  return segment;
}

Segment Segment::create_sparse(size_t bytes) {
  FileDescriptor file(::memfd_create("lockstep", MFD_CLOEXEC));
  if (!file.is_open()) throw errno_error("cannot create shared memory");
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    throw errno_error(fmt::format("cannot create {} bytes of shared memory", bytes));
  return {std::move(file), bytes};
}

// Running out of memory on first use would raise SIGBUS.
void Segment::reserve(size_t begin, size_t bytes) const {
  if (bytes == 0) return;
  int error = 0;
  do {  // older kernels are interrupted by any signal, e.g. SIGTERM
    error = ::posix_fallocate(file_.get(), static_cast<off_t>(begin), static_cast<off_t>(bytes));
  } while (error == EINTR);
  if (error == 0) return;
  errno = error;
  throw errno_error(fmt::format("cannot reserve {} bytes of shared memory", bytes));
}

Segment Segment::open(pid_t pid, int fd, size_t bytes) {
  const auto path = fmt::format("/proc/{}/fd/{}", pid, fd);
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.is_open()) throw errno_error("cannot open the shared memory of process " + path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      static_cast<size_t>(status.st_size) != bytes)
    throw environment_error(fmt::format("{} is not the shared memory of this group", path));
  return {std::move(file), bytes};
}

void Segment::prefault() const {
  constexpr size_t kPageBytes = 4096;
  auto* const begin = reinterpret_cast<volatile char*>(data_);
  for (size_t i = 0; i < bytes_; i += kPageBytes) begin[i] = 0;
}

Segment::Segment(Segment&& other) noexcept
    : file_(std::move(other.file_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Segment::~Segment() {
  if (data_) ::munmap(data_, bytes_);
}

std::string host_identity() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::error_code failed;
  const auto processes = std::filesystem::read_symlink("/proc/self/ns/pid", failed).string();
  return boot.empty() || failed ? std::string() : boot + " " + processes;
}

}  // namespace lockstep::distributed::shm
