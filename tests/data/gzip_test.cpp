#include "formats/gzip.h"

#include <catch2/catch.hpp>

#include "tests/data/error_of.h"
#include "tests/data/idx_bytes.h"

namespace lockstep::data {
namespace {

std::vector<uint8_t> counting(size_t size) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 7 + i / 256);
  return bytes;
}

std::vector<uint8_t> read_in_pieces(const std::vector<uint8_t>& file, size_t piece) {
  formats::GzipReader reader(file, "f.gz");
  std::vector<uint8_t> all, buffer(piece);
  for (;;) {
    const auto count = reader.read(buffer);
    all.insert(all.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(count));
    if (count < piece) return all;
  }
}

TEST_CASE("gzip: round trip with any size of pieces") {
  const auto content = counting(100'000);
  const auto file = gzipped(content);
  CHECK(formats::is_gzip(file));
  CHECK_FALSE(formats::is_gzip(content));
  for (const size_t piece : {1, 7, 4096, 100'000, 200'000})
    CHECK(read_in_pieces(file, piece) == content);
}

TEST_CASE("gzip: several streams in one file are concatenated") {
  auto file = gzipped({1, 2, 3});
  const auto second = gzipped({4, 5});
  file.insert(file.end(), second.begin(), second.end());
  CHECK(read_in_pieces(file, 4) == std::vector<uint8_t>{1, 2, 3, 4, 5});
}

TEST_CASE("gzip: truncation, corruption and trailing bytes are reported") {
  const auto content = counting(10'000);
  const auto file = gzipped(content);
  for (const size_t kept : {size_t{2}, size_t{12}, file.size() / 2, file.size() - 1}) {
    const std::vector<uint8_t> cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(kept));
    INFO(kept << " of " << file.size());
    CHECK(error_of([&] { read_in_pieces(cut, 1 << 20); }) ==
          "config: f.gz: truncated gzip file: it ends inside the compressed data");
  }
  auto wrong_checksum = file;
  wrong_checksum[file.size() - 6] ^= 1;
  CHECK(error_of([&] { read_in_pieces(wrong_checksum, 1 << 20); }) ==
        "config: f.gz: corrupt gzip file: incorrect data check");
  auto longer = file;
  longer.insert(longer.end(), {'j', 'u', 'n', 'k'});
  CHECK(error_of([&] { read_in_pieces(longer, 1 << 20); }) ==
        "config: f.gz: corrupt gzip file: incorrect header check");
}

TEST_CASE("gzip: the capacity is an upper limit even for the most compressible content") {
  const std::vector<uint8_t> zeros(50'000'000);
  const auto file = gzipped(zeros);
  CHECK(formats::gzip_capacity(file.size()) >= zeros.size());
  CHECK(formats::gzip_capacity(file.size()) < zeros.size() * 2);
}

}  // namespace
}  // namespace lockstep::data
