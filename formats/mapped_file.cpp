#include "formats/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "core/printable.h"
#include "core/relative_path_hint.h"
#include "core/system/full_io.h"
#include "core/system/mutex.h"
#include "formats/path_list.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

// What the kernel may map with one page: those that its cache has in one piece.
constexpr size_t kBytesAround = size_t{2} << 20;

MappedFile::Identity identity_in(const struct stat& status) {
  return {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

// Call immediately after the failed system call. Wrong paths are Config errors: a restart does not
// fix them.
Error opening_error(const std::filesystem::path& path, const std::string& name) {
  if (errno == ELOOP) return config_error(name + ": is a symbolic link loop");
  if (errno != ENOENT && errno != ENOTDIR) return errno_error(name + ": cannot be opened");
  return config_error(name + ": no such file" + relative_path_hint(path, "data"));
}

}  // namespace

// The open copies of objects. Never destroyed: threads may read while the process ends.
struct MappedFile::Copies {
  Mutex mutex;
  std::set<const MappedFile*> open GUARDED_BY(mutex);
  std::atomic<size_t> mapped = 0;  // bytes, at most
};

MappedFile::Copies& MappedFile::copies() {
  static auto& all = *new Copies;
  return all;
}

MappedFile::MappedFile(const std::filesystem::path& path)
    : name_(printable(path.string(), 400)),
      file_(::open(LocalFile(path).path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)),
      is_copy_(has_scheme(path)) {
  if (!file_.is_open()) {
    throw opening_error(path, name_);
  }
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) throw errno_error(name_ + ": cannot be read");
  if (S_ISDIR(status.st_mode)) throw config_error(name_ + ": is a directory, expected a file");
  if (!S_ISREG(status.st_mode)) throw config_error(name_ + ": is not a regular file");
  mapped_ = identity_now();
  size_ = static_cast<size_t>(mapped_.size);
  if (size_ == 0) return;
  auto* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file_.get(), 0);
  if (address == MAP_FAILED) throw errno_error(name_ + ": cannot be mapped");
  bytes_ = static_cast<const uint8_t*>(address);
  guard_.emplace(bytes_, size_);
  if (!is_copy_) return;
  const MutexLock lock(copies().mutex);
  copies().open.insert(this);
}

MappedFile::~MappedFile() {
  if (is_copy_) {
    const MutexLock lock(copies().mutex);
    copies().open.erase(this);
  }
  guard_.reset();
  if (bytes_) ::munmap(const_cast<uint8_t*>(bytes_), size_);
}

// Other threads that read at the same time map their pages again.
void MappedFile::unmap_pages() const {
  if (was_read_.exchange(false))
    (void)::madvise(const_cast<uint8_t*>(bytes_), size_, MADV_DONTNEED);
}

std::span<const uint8_t> MappedFile::bytes_at(size_t begin, size_t size,
                                              std::vector<uint8_t>& buffer) const {
  check(begin <= size_ && size <= size_ - begin, "a range outside of the file");
  if (!is_copy_) return bytes().subspan(begin, size);
  buffer.resize(size);
  const auto count = read_all_at(file_.get(), reinterpret_cast<char*>(buffer.data()), size, begin);
  if (!count) throw errno_error(name_ + ": cannot be read");
  // The rest of a file that was truncated: verify_unchanged() reports it.
  std::fill(buffer.begin() + static_cast<std::ptrdiff_t>(*count), buffer.end(), uint8_t{0});
  return buffer;
}

void MappedFile::note_read(size_t size, size_t places) const {
  if (!is_copy_) return;
  auto& all = copies();
  was_read_ = true;
  if ((all.mapped += size + places * kBytesAround) < kCopyBytes) return;
  const MutexLock lock(all.mutex);
  if (all.mapped < kCopyBytes) return;  // another thread was faster
  all.mapped = 0;
  for (const auto* file : all.open) file->unmap_pages();
}

MappedFile::Identity MappedFile::identity_now() const {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) throw errno_error(name_ + ": cannot be read");
  return identity_in(status);
}

MappedFile::Identity MappedFile::identity_of(const std::filesystem::path& path) {
  struct stat status {};
  const auto name = printable(path.string(), 400);
  const LocalFile local(path);
  if (::stat(local.path().c_str(), &status) == 0) return identity_in(status);
  throw opening_error(path, name);
}

void MappedFile::verify_same(const std::filesystem::path& path, const Identity& before) {
  struct stat status {};
  const auto name = printable(path.string(), 400);
  const LocalFile local(path);
  if (::stat(local.path().c_str(), &status) != 0)
    throw errno_error(name + ": was deleted while it was being read");
  if (identity_in(status) != before)
    throw environment_error(name + ": was changed while it was being read");
}

void MappedFile::verify_unchanged() const {
  const auto now = identity_now();
  if (now == mapped_ && guard_ && guard_->has_failed())
    throw environment_error(name_ + ": could not be read: storage failure, or it was truncated");
  if (now == mapped_) return;
  const auto what = now.size < mapped_.size
                        ? "was truncated to " + std::to_string(now.size) + " bytes"
                        : std::string("was changed");
  throw environment_error(name_ + ": " + what + " while it was being read");
}

}  // namespace lockstep::formats
