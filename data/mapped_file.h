// A file that is read through memory: nothing is read before it is used, and its pages are the
// system's to drop. No LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "core/file_descriptor.h"

namespace lockstep {

// Thread: const and safe to use from several threads at once.
class MappedFile {
 public:
  // Throws Config when it does not exist or is no regular file; Environment when it cannot be
  // opened or mapped.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // The whole content. A page of a file that has become shorter cannot be read: the process gets a
  // SIGBUS. Call verify_unchanged() before a piece is used.
  std::span<const uint8_t> bytes() const { return {bytes_, size_}; }

  // Throws Environment when the file was written to, cut or replaced in place since it was mapped:
  // what is read would be neither the old nor the new content. One that was only removed or renamed
  // keeps its content here.
  void verify_unchanged() const;

  const std::string& name() const { return name_; }

 private:
  struct Identity {
    int64_t size = 0, seconds = 0, nanoseconds = 0;
    bool operator==(const Identity&) const = default;
  };
  Identity identity() const;

  std::string name_;
  FileDescriptor file_;
  Identity mapped_;
  const uint8_t* bytes_ = nullptr;
  size_t size_ = 0;
};

}  // namespace lockstep
