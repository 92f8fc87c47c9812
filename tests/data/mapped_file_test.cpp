// Files that are truncated, overwritten or removed while they are mapped.
#include "formats/mapped_file.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <numeric>

#include "data/loader/loader.h"
#include "lockstep/part.h"
#include "tests/data/error_of.h"
#include "tests/temporary_directory.h"

namespace lockstep::data {
namespace {

constexpr size_t kBytes = 1u << 20;

int64_t sum_of(std::span<const uint8_t> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

TEST_CASE("mapped file: after truncation it reads as zeros and reports it; the process continues") {
  const TemporaryDirectory directory;
  directory.write("x", std::vector<uint8_t>(kBytes, 1));
  const formats::MappedFile file(directory.path() / "x");
  file.verify_unchanged();
  std::filesystem::resize_file(directory.path() / "x", 5000);
  // Less than a page is left; the kernel fills the rest of that page with zeros.
  CHECK(sum_of(file.bytes()) == 5000);
  CHECK(error_of([&] { file.verify_unchanged(); }).find("x: was truncated to 5000 bytes while") !=
        std::string::npos);
}

TEST_CASE("mapped file: a file that was truncated and restored stays invalid") {
  const TemporaryDirectory directory;
  directory.write("x", std::vector<uint8_t>(kBytes, 1));
  const auto path = directory.path() / "x";
  const formats::MappedFile file(path);
  const auto written = std::filesystem::last_write_time(path);
  std::filesystem::resize_file(path, 0);
  CHECK(sum_of(file.bytes()) == 0);
  std::filesystem::resize_file(path, kBytes);
  std::filesystem::last_write_time(path, written);
  CHECK(error_of([&] { file.verify_unchanged(); }).find("environment: ") == 0);
}

TEST_CASE("mapped file: errors in the content are attributed to the change") {
  const TemporaryDirectory directory;
  directory.write("x", std::vector<uint8_t>(kBytes, 1));
  const formats::MappedFile file(directory.path() / "x");
  const auto parse = [&](std::span<const uint8_t> bytes) {
    std::filesystem::resize_file(directory.path() / "x", 0);
    if (bytes[0] != 1) throw config_error("corrupt");
    return 1;
  };
  CHECK(error_of([&] { file.read(parse); }).find("was truncated to 0 bytes") != std::string::npos);
}

TEST_CASE("mapped file: other mappings are not affected") {
  const TemporaryDirectory directory;
  for (const auto* name : {"a", "b", "c"}) directory.write(name, std::vector<uint8_t>(kBytes, 1));
  const formats::MappedFile a(directory.path() / "a"), b(directory.path() / "b"),
      c(directory.path() / "c");
  std::filesystem::resize_file(directory.path() / "b", 0);
  CHECK(sum_of(b.bytes()) == 0);
  CHECK(sum_of(a.bytes()) == kBytes);
  CHECK(sum_of(c.bytes()) == kBytes);
  CHECK(error_of([&] { a.verify_unchanged(), c.verify_unchanged(); }) == "no error");
}

TEST_CASE("mapped file: stays readable after removal or renaming") {
  const TemporaryDirectory directory;
  directory.write("x", std::vector<uint8_t>(kBytes, 1));
  const formats::MappedFile file(directory.path() / "x");
  std::filesystem::remove(directory.path() / "x");
  CHECK(sum_of(file.bytes()) == kBytes);
  CHECK(error_of([&] { file.verify_unchanged(); }) == "no error");
}

// A dataset with the config `text`, and its file, which is truncated between two batches.
std::string cut_under_loader(const std::string& text, const std::filesystem::path& file) {
  Part<Dataset> part(dataset_registry());
  part.read(parse_config(text, "test"), "data.train");
  const auto dataset = part.build();
  std::vector<int64_t> indices(static_cast<size_t>(dataset->size()));
  std::iota(indices.begin(), indices.end(), 0);
  Loader loader(*dataset, indices, {.batch_size = 16, .workers = 2, .name = "data.train"});
  loader.next();
  std::filesystem::resize_file(file, 300);
  return error_of([&] {
    while (loader.next()) {
    }
  });
}

TEST_CASE("mapped file: truncation under a running loader is an error that names the file") {
  const TemporaryDirectory directory;
  const auto folder = directory.path().string();
  std::vector<uint8_t> npy(128 + kBytes);
  const std::string header = "\x93NUMPY\1" + std::string("\0\x76\0", 3) +
                             "{'descr': '|u1', 'fortran_order': False, 'shape': (4096, 256), }";
  std::copy(header.begin(), header.end(), npy.begin());
  std::fill(npy.begin() + static_cast<std::ptrdiff_t>(header.size()), npy.begin() + 128, ' ');
  directory.write("x.npy", npy);
  const auto of_npy =
      cut_under_loader("{name: npy, path: " + folder + "}", directory.path() / "x.npy");
  CHECK(of_npy.find("environment: data.train: batch ") == 0);
  CHECK(of_npy.find("x.npy: was truncated to 300 bytes while it was being read") !=
        std::string::npos);

  directory.write("x.bin", std::vector<uint8_t>(kBytes, 1));
  const auto of_tokens = cut_under_loader("{name: tokens, length: 64, path: " + folder + "/x.bin}",
                                          directory.path() / "x.bin");
  CHECK(of_tokens.find("x.bin: was truncated to 300 bytes while it was being read") !=
        std::string::npos);
}

}  // namespace
}  // namespace lockstep::data
