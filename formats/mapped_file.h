// A memory-mapped file: pages are read on first access, and the kernel can evict them. No LibTorch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/system/file_descriptor.h"
#include "formats/mapping_guard.h"
#include "lockstep/error.h"

namespace lockstep::formats {

// Thread: const functions are safe to call from several threads concurrently.
class MappedFile {
 public:
  // Throws Config if the file does not exist or is not a regular file; Environment if it cannot be
  // opened or mapped.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // The content. If the file was truncated after it was mapped, the missing part reads as zeros:
  // call verify_unchanged() after reading data and before using them.
  std::span<const uint8_t> bytes() const { return {bytes_, size_}; }

  // Throws Environment if the file was modified, truncated or replaced in place since it was
  // mapped, or if a read failed: data read so far are then inconsistent. A file that was only
  // deleted or renamed keeps its content.
  void verify_unchanged() const;

  // Returns use(bytes()), verified. Throws as verify_unchanged(), also instead of an error that
  // `use` throws because the content changed.
  template <class Use>
  auto read(const Use& use) const {
    try {
      auto result = use(bytes());
      verify_unchanged();
      return result;
    } catch (const Error&) {
      verify_unchanged();
      throw;
    }
  }

  // Bytes [begin, begin + size) of the content, as of a sample, which are verified as bytes(). Those of the
  // copy of an object are read into `buffer`: its pages stay out of this process. Other files are faster
  // mapped: then `buffer` is unchanged.
  std::span<const uint8_t> bytes_at(size_t begin, size_t size, std::vector<uint8_t>& buffer) const;

  // Call after reading `size` bytes of bytes() at `places`, none if they follow the last ones. Of copies of
  // objects, pages are unmapped again, so that this process maps about kCopyBytes of all copies together;
  // the kernel keeps them in its cache. No effect on other files.
  void note_read(size_t size, size_t places = 1) const;
  static constexpr size_t kCopyBytes = size_t{16} << 20;

  const std::string& name() const { return name_; }

  // Size and modification time.
  struct Identity {
    int64_t size = 0, seconds = 0, nanoseconds = 0;
    bool operator==(const Identity&) const = default;
  };
  // The identity at the time of mapping.
  const Identity& identity() const { return mapped_; }
  // The current identity of the file at `path`. Throws like the constructor if it does not exist.
  static Identity identity_of(const std::filesystem::path& path);
  // Returns use(). Throws Environment, also instead of an error of `use`, if the file at `path`
  // does not exist or its identity is no longer `before`.
  template <class Use>
  static auto read_again(const std::filesystem::path& path, const Identity& before,
                         const Use& use) {
    verify_same(path, before);
    try {
      auto result = use();
      verify_same(path, before);
      return result;
    } catch (const Error&) {
      verify_same(path, before);
      throw;
    }
  }

 private:
  struct Copies;
  static Copies& copies();

  Identity identity_now() const;
  void unmap_pages() const;
  static void verify_same(const std::filesystem::path& path, const Identity& before);

  std::string name_;
  FileDescriptor file_;
  Identity mapped_;
  const uint8_t* bytes_ = nullptr;
  size_t size_ = 0;
  std::optional<MappingGuard> guard_;
  const bool is_copy_;  // of an object
  mutable std::atomic<bool> was_read_ = false;
};

}  // namespace lockstep::formats
