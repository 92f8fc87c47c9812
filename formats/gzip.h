// Reading a gzip file that is in memory, piece by piece, so that a reader can stop before a bomb
// has unfolded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace lockstep::formats {

// True when `bytes` begin as a gzip file does.
bool is_gzip(std::span<const uint8_t> bytes);

// The most bytes that a gzip file of `size` bytes can unfold to: deflate never exceeds 1032 to 1.
uint64_t gzip_capacity(uint64_t size);

// Thread: one at a time.
class GzipReader {
 public:
  // `bytes` must outlive the reader. `name` stands for the file in messages.
  GzipReader(std::span<const uint8_t> bytes, std::string name);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  // Fills `out` with the next bytes. Returns how many there were: fewer than asked for only at the
  // end of the content, whose checksum has then been verified. Throws Config: damaged, or it ends
  // too early.
  size_t read(std::span<uint8_t> out);

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
  std::string name_;
};

}  // namespace lockstep::formats
