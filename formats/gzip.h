// Streaming decompression of a gzip file in memory, so that a reader can stop early at a
// decompression bomb.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace lockstep::formats {

// Whether `bytes` start with the magic number of gzip.
bool is_gzip(std::span<const uint8_t> bytes);

// The maximum decompressed size of a gzip file of `size` bytes: the ratio of deflate is at most
// 1032.
uint64_t gzip_capacity(uint64_t size);

// Thread: not thread-safe.
class GzipReader {
 public:
  // `bytes` must outlive the reader. `name` is used as the file name in messages.
  GzipReader(std::span<const uint8_t> bytes, std::string name);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  // Fills `out` with the next bytes. Returns their number, which is less than requested only at the
  // end of the content; its checksum is then verified. Throws Config if the file is corrupt or
  // truncated.
  size_t read(std::span<uint8_t> out);

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
  std::string name_;
};

}  // namespace lockstep::formats
