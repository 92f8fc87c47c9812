// Includes the source to test the portable implementation, which may not be selected on this
// machine.
#include "core/system/crc32c.cpp"

#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

using namespace lockstep;

namespace {

std::vector<uint8_t> random_bytes(size_t size) {
  std::mt19937 random(7);
  std::vector<uint8_t> bytes(size);
  for (auto& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

}  // namespace

TEST_CASE("crc32c: the test vectors of RFC 3720") {
  std::vector<uint8_t> bytes(32, 0x00);
  CHECK(crc32c(bytes.data(), bytes.size()) == 0x8A9136AA);
  bytes.assign(32, 0xFF);
  CHECK(crc32c(bytes.data(), bytes.size()) == 0x62A8AB43);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  CHECK(crc32c(bytes.data(), bytes.size()) == 0x46DD794E);
  std::iota(bytes.rbegin(), bytes.rend(), uint8_t{0});
  CHECK(crc32c(bytes.data(), bytes.size()) == 0x113FDB5C);
  const std::vector<uint8_t> read_command = {
      0x01, 0xC0, 0, 0,    0, 0, 0, 0,    0,    0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 4, 0,
      0,    0,    0, 0x14, 0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0, 0};
  REQUIRE(read_command.size() == 48);
  CHECK(crc32c(read_command.data(), read_command.size()) == 0xD9963A56);
}

TEST_CASE("crc32c: the catalog's check value, and the checksum of no data") {
  CHECK(crc32c("123456789", 9) == 0xE3069283);
  CHECK(crc32c(nullptr, 0) == 0);
}

TEST_CASE("crc32c: the checksum can be computed in pieces") {
  const auto bytes = random_bytes(100);
  const auto whole = crc32c(bytes.data(), bytes.size());
  for (size_t cut = 0; cut <= bytes.size(); ++cut)
    CHECK(crc32c(bytes.data() + cut, bytes.size() - cut, crc32c(bytes.data(), cut)) == whole);
}

TEST_CASE("crc32c: table and instruction agree at every length and alignment") {
  const auto bytes = random_bytes(300);
  for (size_t begin = 0; begin < 9; ++begin)
    for (size_t size = 0; size < 280; ++size)
      REQUIRE(crc32c(bytes.data() + begin, size) == ~by_table(bytes.data() + begin, size, ~0u));
}

TEST_CASE("crc32c: every flipped bit is detected") {
  auto bytes = random_bytes(64);
  const auto whole = crc32c(bytes.data(), bytes.size());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    REQUIRE(crc32c(bytes.data(), bytes.size()) != whole);
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
  }
}
