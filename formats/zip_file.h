// Reads zip archives in memory, such as NumPy's .npz files. No LibTorch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::formats {

// Thread: not thread-safe.
class ZipFile {
 public:
  // `bytes` must outlive the reader. `name` is used as the file name in messages. Throws Config if
  // this is not a zip archive, or it is corrupt or has more than 100,000 members.
  ZipFile(std::span<const uint8_t> bytes, std::string name);
  ~ZipFile();
  ZipFile(const ZipFile&) = delete;
  ZipFile& operator=(const ZipFile&) = delete;

  // Member names in archive order.
  std::vector<std::string> members() const;

  // Whether member `index` is neither compressed nor encrypted.
  bool is_stored(size_t index) const;

  // The content of member `index`, decompressed and verified with its checksum. Throws Config if it
  // is corrupt, encrypted, compressed with an unknown method, or larger than its header states or
  // than `max_bytes`.
  std::vector<uint8_t> read(size_t index, uint64_t max_bytes) const;

  // The content of member `index` in the archive's bytes, not verified with its checksum. Throws
  // Config if it is compressed, encrypted or corrupt.
  std::span<const uint8_t> stored(size_t index) const;

 private:
  [[noreturn]] void fail(size_t index, const char* why) const;

  struct Archive;
  std::unique_ptr<Archive> archive_;
  std::span<const uint8_t> bytes_;
  std::string name_;
};

}  // namespace lockstep::formats
