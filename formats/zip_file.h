// The members of a zip archive that is in memory, as numpy's .npz is one. No LibTorch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::formats {

// Thread: one at a time.
class ZipFile {
 public:
  // `bytes` must outlive the reader. `name` stands for the file in messages. Throws Config: no zip
  // archive, a damaged one, or one of more than 100,000 members.
  ZipFile(std::span<const uint8_t> bytes, std::string name);
  ~ZipFile();
  ZipFile(const ZipFile&) = delete;
  ZipFile& operator=(const ZipFile&) = delete;

  // In the order of the archive.
  std::vector<std::string> members() const;

  // The content of member `index`, unpacked and verified by its checksum. Throws Config: damaged,
  // encrypted, of an unknown method, or of more bytes than it announces or `max_bytes`.
  std::vector<uint8_t> read(size_t index, uint64_t max_bytes) const;

 private:
  struct Archive;
  std::unique_ptr<Archive> archive_;
  std::string name_;
};

}  // namespace lockstep::formats
