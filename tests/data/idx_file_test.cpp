#include "formats/idx_file.h"

#include <catch2/catch.hpp>

#include "tests/data/error_of.h"
#include "tests/data/idx_bytes.h"
#include "tests/temporary_directory.h"

namespace lockstep::data {
namespace {

std::vector<uint8_t> values_of(const formats::IdxArray& array) {
  return {array.values.begin(), array.values.end()};
}

std::string parse_error(const std::vector<uint8_t>& bytes) {
  return error_of([&] { formats::parse_idx(bytes, "f"); });
}

TEST_CASE("idx file: dimensions and elements round-trip, plain and compressed") {
  const auto bytes = idx_bytes({2, 1, 3}, {1, 2, 3, 250, 5, 6});
  for (const auto& file : {bytes, gzipped(bytes)}) {
    const auto array = formats::parse_idx(file, "f");
    CHECK(array.dims == std::vector<int64_t>{2, 1, 3});
    CHECK(values_of(array) == std::vector<uint8_t>{1, 2, 3, 250, 5, 6});
  }
  CHECK(formats::parse_idx(idx_bytes({258}, std::vector<uint8_t>(258, 9)), "f").dims ==
        std::vector<int64_t>{258});
}

TEST_CASE("idx file: reading from disk gives the same result") {
  const TemporaryDirectory directory;
  directory.write("a.gz", gzipped(idx_bytes({4}, {4, 3, 2, 1})));
  directory.write("a", idx_bytes({4}, {4, 3, 2, 1}));
  for (const char* name : {"a.gz", "a"}) {
    const auto array = formats::read_idx_file(directory.path() / name);
    CHECK(values_of(array) == std::vector<uint8_t>{4, 3, 2, 1});
    CHECK((array.mapped != nullptr) == (std::string(name) == "a"));
  }
  directory.write("short", {0, 0, 8});
  CHECK(error_of([&] { formats::read_idx_file(directory.path() / "short"); }) ==
        "config: " + (directory.path() / "short").string() +
            ": truncated: an IDX file starts with 4 magic bytes, found 3");
  const auto missing = error_of([&] { formats::read_idx_file(directory.path() / "none"); });
  CHECK(missing == "config: " + (directory.path() / "none").string() + ": no such file");
}

TEST_CASE("idx file: the error about a truncated file names expected and found sizes") {
  CHECK(parse_error({}) == "config: f: truncated: an IDX file starts with 4 magic bytes, found 0");
  CHECK(parse_error({0, 0, 8, 3, 0, 0, 0, 1, 0}) ==
        "config: f: truncated: 3 dimensions require a header of 16 bytes, found 9");
  CHECK(parse_error(idx_bytes({2, 3}, {1, 2, 3, 4, 5})) ==
        "config: f: truncated: 2 x 3 elements and the header require 18 bytes, found 17");
  CHECK(parse_error(gzipped(idx_bytes({2, 3}, {1, 2, 3, 4, 5}))) ==
        "config: f: truncated: 2 x 3 elements and the header require 18 bytes, found 17");
}

TEST_CASE("idx file: bytes after the elements are an error") {
  CHECK(parse_error(idx_bytes({2}, {1, 2, 3})) ==
        "config: f: trailing bytes: 2 elements and the header require 10 bytes, found more");
  CHECK(parse_error(gzipped(idx_bytes({2}, {1, 2, 3}))) ==
        "config: f: trailing bytes: 2 elements and the header require 10 bytes, found more");
}

TEST_CASE("idx file: other formats are recognized") {
  CHECK(parse_error({'P', 'K', 3, 4, 9, 9}) ==
        "config: f: not an IDX file: starts with 50 4b 03 04, expected 00 00 08 and the number "
        "of dimensions");
  CHECK(parse_error(idx_bytes({1}, {0, 0, 0, 0}, 0x0d)) ==
        "config: f: elements have type 0x0d; only unsigned bytes (0x08) are supported");
  CHECK(parse_error({0, 0, 8, 0}) == "config: f: 0 dimensions; 1 to 8 are valid");
  CHECK(parse_error({0, 0, 8, 9}) == "config: f: 9 dimensions; 1 to 8 are valid");
}

TEST_CASE("idx file: impossible dimensions are rejected before memory is allocated") {
  CHECK(parse_error(idx_bytes({3, 0, 5}, {})) == "config: f: a dimension is zero: 3 x 0 x 5");
  const auto max = 0xffffffffu;
  CHECK(parse_error(idx_bytes({max, max, max, max}, {})) ==
        "config: f: 4294967295 x 4294967295 x 4294967295 x 4294967295: the elements "
        "in the header exceed the limit of 4 GiB");
  CHECK(parse_error(idx_bytes({0x80000000u, 2}, {})) ==
        "config: f: truncated: 2147483648 x 2 elements and the header require 4294967308 bytes, "
        "found 12");
}

TEST_CASE("idx file: neither a decompression bomb nor a false header allocates memory") {
  const auto bomb = gzipped(idx_bytes({1}, std::vector<uint8_t>(20'000'000)));
  CHECK(parse_error(bomb) ==
        "config: f: trailing bytes: 1 elements and the header require 9 bytes, found more");
  const auto boast = gzipped(idx_bytes({0x40000000u}, {1, 2, 3}));
  CHECK(
      parse_error(boast).starts_with("config: f: truncated: 1073741824 elements and the header "
                                     "require 1073741832 bytes, found at most "));
}

}  // namespace
}  // namespace lockstep::data
