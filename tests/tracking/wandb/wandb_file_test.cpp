#include "tracking/sinks/wandb/wandb_file.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include <zlib.h>

#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tests/temporary_directory.h"

namespace lockstep::tracking {
namespace {

constexpr size_t kBlock = 32'768;
const std::string kHeader("\x3aW&B\xe1\xbe\x00", 7);

// One chunk as stored in the file.
struct Chunk {
  size_t offset;
  int type;
  std::string data;
};

// An independent reader of the documented format.
std::vector<Chunk> chunks_of(const std::string& content) {
  REQUIRE(content.substr(0, 7) == kHeader);
  std::vector<Chunk> chunks;
  for (size_t at = 7; at < content.size();) {
    const auto left = kBlock - at % kBlock;
    if (left < 7) {
      REQUIRE(content.substr(at, left) == std::string(left, '\0').substr(0, content.size() - at));
      at += left;
      continue;
    }
    uint32_t crc = 0;
    uint16_t length = 0;
    std::memcpy(&crc, &content[at], 4);
    std::memcpy(&length, &content[at + 4], 2);
    REQUIRE(size_t{length} + 7 <= left);
    REQUIRE(at + 7 + length <= content.size());
    const auto summed = content.substr(at + 6, 1 + length);
    REQUIRE(crc == ::crc32(0, reinterpret_cast<const Bytef*>(summed.data()),
                           static_cast<uInt>(summed.size())));
    chunks.push_back({at, content[at + 6], content.substr(at + 7, length)});
    at += 7 + length;
  }
  return chunks;
}

std::vector<std::string> records_of(const std::string& content) {
  std::vector<std::string> records;
  bool is_open = false;
  for (const auto& chunk : chunks_of(content)) {
    const bool begins = chunk.type == 1 || chunk.type == 2;
    REQUIRE(begins != is_open);
    if (begins) records.emplace_back();
    records.back() += chunk.data;
    is_open = chunk.type == 2 || chunk.type == 3;
  }
  REQUIRE(!is_open);
  return records;
}

std::string bytes(size_t size, char seed = 'a') {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(seed + i % 251);
  return text;
}

}  // namespace

TEST_CASE("wandb file: a small record is encoded as documented") {
  TemporaryDirectory directory;
  WandbFile file(directory / "a.wandb", 0);
  file.append("abc");
  file.flush();
  const auto content = read_file(directory / "a.wandb");
  // crc32 of "\x01abc", computed with Python's zlib.
  CHECK(content == kHeader + std::string("\xa9\x20\x9d\x53\x03\x00\x01", 7) + "abc");
  CHECK(file.length() == content.size());
}

TEST_CASE("wandb file: records of all sizes around the end of a block are read back") {
  TemporaryDirectory directory;
  // The first record leaves 0 to 16 bytes of the first block: no room, room for zeros, for a header
  // alone, and for a header with some data.
  for (size_t left = 0; left <= 16; ++left) {
    const auto path = directory / (std::to_string(left) + ".wandb");
    const std::vector<std::string> given = {bytes(kBlock - 7 - 7 - left), bytes(20, 'k'), "",
                                            bytes(3 * kBlock, 'x'), bytes(1)};
    WandbFile file(path, 0);
    for (const auto& record : given) file.append(record);
    file.flush();
    INFO("left " << left);
    CHECK(records_of(read_file(path)) == given);
  }
}

TEST_CASE("wandb file: a long record is split into first, middle and last parts") {
  TemporaryDirectory directory;
  WandbFile file(directory / "a.wandb", 0);
  file.append(bytes(100'000));
  file.flush();
  std::vector<int> types;
  for (const auto& chunk : chunks_of(read_file(directory / "a.wandb"))) types.push_back(chunk.type);
  CHECK(types == std::vector<int>{2, 3, 3, 4});
}

TEST_CASE("wandb file: it continues at any length and truncates the rest") {
  TemporaryDirectory directory;
  const auto path = directory / "a.wandb";
  std::vector<uint64_t> lengths;
  {
    WandbFile file(path, 0);
    for (int i = 0; i < 40; ++i) {
      file.append(bytes(1'700, static_cast<char>(i)));
      file.flush();
      lengths.push_back(file.length());
    }
  }
  for (const int kept : {39, 25, 19, 1}) {
    WandbFile file(path, lengths[static_cast<size_t>(kept) - 1]);
    file.append("new");
    file.flush();
    const auto records = records_of(read_file(path));
    REQUIRE(records.size() == static_cast<size_t>(kept) + 1);
    CHECK(records.back() == "new");
    for (int i = 0; i < kept; ++i)
      CHECK(records[static_cast<size_t>(i)] == bytes(1'700, static_cast<char>(i)));
  }
}

TEST_CASE("wandb file: a file that is shorter than its stored length is rejected") {
  TemporaryDirectory directory;
  write_file_durably(directory / "a.wandb", "short");
  try {
    WandbFile file(directory / "a.wandb", 6);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Config);
    CHECK(std::string(error.what()).find("has 5 bytes, but 6 were written") != std::string::npos);
  }
}

}  // namespace lockstep::tracking
