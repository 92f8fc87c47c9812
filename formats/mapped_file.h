// A file that is read through memory: nothing is read before it is used, and its pages are the
// system's to drop. No LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "core/system/file_descriptor.h"
#include "formats/mapping_guard.h"
#include "lockstep/error.h"

namespace lockstep::formats {

// For the message that there is nothing at `path`: where a relative path starts, else nothing.
std::string relative_path_hint(const std::filesystem::path& path);

// Thread: const and safe to use from several threads at once.
class MappedFile {
 public:
  // Throws Config when it does not exist or is no regular file; Environment when it cannot be
  // opened or mapped.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // The whole content. What a file that has become shorter no longer holds reads as zeros: call
  // verify_unchanged() after a piece was read, before it is used.
  std::span<const uint8_t> bytes() const { return {bytes_, size_}; }

  // Throws Environment when the file was written to, cut or replaced in place since it was mapped,
  // or could not be read: what was read is neither the old nor the new content. One that was only
  // removed or renamed keeps its content here.
  void verify_unchanged() const;

  // What `use` makes of the content. Throws as verify_unchanged(), also in the place of an error
  // that `use` throws because the content changed under it.
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

  const std::string& name() const { return name_; }

  // Size and time of the last change.
  struct Identity {
    int64_t size = 0, seconds = 0, nanoseconds = 0;
    bool operator==(const Identity&) const = default;
  };
  // When it was mapped.
  const Identity& identity() const { return mapped_; }
  // Of the file that is at `path` now. Throws as the constructor when there is none.
  static Identity identity_of(const std::filesystem::path& path);
  // What `use` makes of the file at `path`. Throws Environment, also in the place of an error of
  // `use`, when the file is gone or not the one that it was `before`.
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
  Identity identity_now() const;
  static void verify_same(const std::filesystem::path& path, const Identity& before);

  std::string name_;
  FileDescriptor file_;
  Identity mapped_;
  const uint8_t* bytes_ = nullptr;
  size_t size_ = 0;
  std::optional<MappingGuard> guard_;
};

}  // namespace lockstep::formats
