// Arbitrary bytes are either an archive whose members are inside it, in order and without overlap, and
// whose samples have distinct extensions, or a Config error. Each input is also parsed with the right
// checksum in every block, which mutations rarely keep.
#include <cstdlib>
#include <numeric>
#include <set>

#include "formats/tar/tar_samples.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {
namespace {

constexpr size_t kBlock = 512, kChecksumAt = 148, kChecksumBytes = 8;

void write_checksum(std::string& bytes, size_t block) {
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(block);
  std::fill_n(begin + kChecksumAt, kChecksumBytes, ' ');
  unsigned sum = std::accumulate(begin, begin + kBlock, 0u, [](unsigned total, char byte) {
    return total + static_cast<uint8_t>(byte);
  });
  for (size_t digit = 6; digit-- > 0; sum /= 8)
    bytes[block + kChecksumAt + digit] = static_cast<char>('0' + sum % 8);
  bytes[block + kChecksumAt + 6] = '\0';
}

std::string member(const std::string& name, char type, const std::string& size,
                   const std::string& content) {
  std::string bytes(kBlock, '\0');
  bytes.replace(0, name.size(), name);
  bytes.replace(124, size.size(), size);
  bytes[156] = type;
  bytes.replace(257, 8, std::string("ustar\00000", 8));
  write_checksum(bytes, 0);
  bytes += content;
  return bytes + std::string((kBlock - content.size() % kBlock) % kBlock, '\0');
}

void verify(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> archive(data, size);
  try {
    size_t end = 0;
    formats::for_each_tar_member(archive, "input", [&](const formats::TarMember& file) {
      if (file.begin < end + kBlock || file.begin > size || file.size > size - file.begin)
        std::abort();
      end = file.begin + file.size;
      formats::tar_name_at(archive, file.begin);
    });
    size_t samples = 0;
    formats::for_each_tar_sample(archive, "input", [&](const formats::TarSample& sample) {
      std::set<std::string> extensions;
      for (const auto& each : sample.members)
        if (!extensions.insert(each.extension).second || !each.file.name.starts_with(sample.key))
          std::abort();
      if (extensions.empty()) std::abort();
      ++samples;
    });
    if (samples == 0) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) std::abort();
  }
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  const std::string end(2 * kBlock, '\0');
  const auto binary = std::string("\x80", 1) + std::string(10, '\0') + "\x03";
  const std::string records = "18 path=dir/c.jpg\n10 size=3\n";
  const std::string sparse = "22 GNU.sparse.major=1\n";
  const auto long_name = std::string(120, 'a') + ".b.jpg" + std::string(1, '\0');
  return {
      member("a.jpg", '0', "00000000003", "xyz") + member("a.cls", '0', "00000000001", "1") + end,
      member("dir/", '5', "0", "") + member("b.jpg", '\0', binary, "xyz") +
          member("b.json", '7', "         2 ", "{}") + end,
      member("pax", 'x', "00000000034", records) + member("c", '0', "7777777", "xyz") + end,
      member("g", 'g', "00000000000", "") + member("x", 'L', "00000000177", long_name) +
          member("x", '0', "00000000001", "1") + end,
      member("pax", 'x', "00000000026", sparse) + member("c", '0', "00000000003", "xyz") + end,
      member("link.jpg", '1', "00000000000", "") + end};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::verify(data, size);
  std::string repaired(reinterpret_cast<const char*>(data), size);
  for (size_t block = 0; block + lockstep::kBlock <= size; block += lockstep::kBlock) {
    const auto bytes = std::string_view(repaired).substr(block, lockstep::kBlock);
    if (bytes.find_first_not_of('\0') != bytes.npos) lockstep::write_checksum(repaired, block);
  }
  lockstep::verify(reinterpret_cast<const uint8_t*>(repaired.data()), size);
  return 0;
}
