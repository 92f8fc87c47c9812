#include "core/system/committed_file.h"

#include <catch2/catch.hpp>

#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tests/temporary_directory.h"

using namespace lockstep;

TEST_CASE("committed file: empty before a flush, complete after it") {
  TemporaryDirectory directory;
  const auto path = directory / "a/b/file";
  CommittedFile file(path, 0);
  file.append("one");
  CHECK(file.length() == 3);
  CHECK(file.flushed_length() == 0);
  CHECK(read_file(path).empty());
  file.flush();
  file.append(" two");
  file.flush();
  CHECK(file.flushed_length() == 7);
  CHECK(read_file(path) == "one two");
}

TEST_CASE(
    "committed file: bytes after the committed length are truncated, a shorter file is unchanged") {
  TemporaryDirectory directory;
  const auto path = directory / "file";
  write_file_durably(path, "agreed|torn");
  {
    CommittedFile file(path, 7);
    CHECK(read_file(path) == "agreed|");
    file.append("more");
    file.flush();
    CHECK(read_file(path) == "agreed|more");
  }
  CHECK(CommittedFile(path, 100).length() == 11);
  CHECK(CommittedFile(path, 0).length() == 0);
  CHECK(read_file(path).empty());
}

TEST_CASE("committed file: flushed bytes can be replaced in place") {
  TemporaryDirectory directory;
  CommittedFile file(directory / "file", 0);
  file.append("0123456789");
  file.flush();
  file.append("x");
  file.overwrite(3, "abc");
  CHECK(read_file(file.path()) == "012abc6789");
  CHECK_THROWS_AS(file.overwrite(8, "abc"), Error);
  file.flush();
  CHECK(read_file(file.path()) == "012abc6789x");
}

TEST_CASE("committed file: a second writer, a directory and a path below a file are rejected") {
  TemporaryDirectory directory;
  const auto path = directory / "file";
  CommittedFile first(path, 0);
  const auto kind_of = [](const std::filesystem::path& refused) {
    try {
      CommittedFile file(refused, 0);
    } catch (const Error& error) {
      CHECK_THAT(error.what(), Catch::Contains(refused.parent_path().filename().string()));
      return error.kind();
    }
    return ErrorKind::Bug;
  };
  CHECK(kind_of(path) == ErrorKind::Environment);
  CHECK(kind_of(directory.path()) == ErrorKind::Environment);
  CHECK(kind_of(path / "below") == ErrorKind::Environment);
}
