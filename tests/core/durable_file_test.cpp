#include "core/system/durable_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>

#include "core/system/file_descriptor.h"
#include "core/system/new_name.h"
#include "tests/data/error_of.h"
#include "tests/temporary_directory.h"

using namespace lockstep;

namespace {

size_t num_files(const std::filesystem::path& directory) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(directory), {}));
}

// Limits the size of files of this process to `bytes`, to simulate a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = SIG_DFL;
};

}  // namespace

TEST_CASE("durable file: written bytes are read back unchanged") {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "file";
  for (const auto& content :
       {std::string(), std::string("a\0\r\n\xff", 5), std::string(1'000'000, 'x')}) {
    write_file_durably(path, content);
    CHECK(read_file(path) == content);
  }
  CHECK(num_files(directory.path()) == 1);  // no temporary file is left
}

TEST_CASE("durable file: a write that fails leaves the old content and no temporary file") {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "file";
  write_file_durably(path, "old");
  std::string text;
  {
    const FileSizeLimit limit(4096);
    text = error_of([&] { write_file_durably(path, std::string(100'000, 'x')); });
  }
  CHECK(text.starts_with("environment: cannot write " + path.string()));
  CHECK(text.ends_with(": File too large"));
  CHECK(read_file(path) == "old");
  CHECK(num_files(directory.path()) == 1);
}

TEST_CASE("durable file: a directory at the path is an error and is not removed") {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "file";
  make_directories(path / "inside");
  const auto text = error_of([&] { write_file_durably(path, "x"); });
  CHECK(text.starts_with("environment: cannot rename "));
  CHECK(text.ends_with(": Is a directory"));
  CHECK(std::filesystem::is_directory(path / "inside"));
  CHECK(num_files(directory.path()) == 1);
}

TEST_CASE("output file: a pipe is written to and not replaced, and a link keeps its place") {
  const TemporaryDirectory directory;
  const auto pipe = directory.path() / "pipe", file = directory.path() / "file",
             link = directory.path() / "link";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const FileDescriptor reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  write_output_file(pipe, "text");
  CHECK(std::filesystem::is_fifo(pipe));
  std::array<char, 8> read{};
  CHECK(::read(reader.get(), read.data(), read.size()) == 4);
  write_output_file(file, "old");
  std::filesystem::create_symlink("file", link);
  write_output_file(link, "new");
  CHECK(std::filesystem::is_symlink(link));
  CHECK(read_file(file) == "new");
  CHECK(num_files(directory.path()) == 3);
}

TEST_CASE("durable file: a missing parent directory is an error") {
  const TemporaryDirectory directory;
  const auto text = error_of([&] { write_file_durably(directory.path() / "no" / "file", "x"); });
  CHECK(text.starts_with("environment: cannot create " + directory.path().string()));
  CHECK(text.ends_with(": No such file or directory"));
}

TEST_CASE("durable file: read errors state the reason") {
  const TemporaryDirectory directory;
  const auto path = (directory.path() / "file").string();
  CHECK(error_of([&] { read_file(path); }) ==
        "environment: cannot read " + path + ": No such file or directory");
  CHECK(error_of([&] { read_file(directory.path()); }) ==
        "environment: cannot read " + directory.path().string() + ": not a regular file");
  write_file_durably(path, "12345");
  CHECK(read_file(path, 5) == "12345");
  CHECK(error_of([&] { read_file(path, 4); }) ==
        "environment: cannot read " + path + ": 5 bytes exceed the limit of 4 bytes");
}

TEST_CASE("durable file: a pipe is rejected immediately, without blocking") {
  const TemporaryDirectory directory;
  const auto path = (directory.path() / "pipe").string();
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(error_of([&] { read_file(path); }) ==
        "environment: cannot read " + path + ": not a regular file");
}

TEST_CASE("durable file: parents are created, and an error names the first missing directory") {
  const TemporaryDirectory directory;
  make_directories(directory.path() / "a" / "b" / "c");
  CHECK(std::filesystem::is_directory(directory.path() / "a" / "b" / "c"));
  CHECK_NOTHROW(make_directories(directory.path() / "a" / "b"));
  const auto file = directory.path() / "file";
  write_file_durably(file, "x");
  CHECK(error_of([&] { make_directories(file / "b" / "c"); }) ==
        "environment: cannot create directory " + (file / "b").string() + ": Not a directory");
  CHECK(error_of([&] { make_directories(file); }) ==
        "environment: cannot create directory " + file.string() + ": Not a directory");
}

TEST_CASE("durable file: syncing something that is not a directory is an error") {
  const TemporaryDirectory directory;
  CHECK_NOTHROW(sync_directory(directory.path()));
  const auto missing = directory.path() / "missing";
  CHECK(error_of([&] { sync_directory(missing); }) ==
        "environment: cannot sync directory " + missing.string() + ": No such file or directory");
}

TEST_CASE("file descriptor: one owner, closed once") {
  FileDescriptor first(::dup(0));
  REQUIRE(first.is_open());
  const int number = first.get();
  FileDescriptor second(std::move(first));
  CHECK_FALSE(first.is_open());
  CHECK(second.get() == number);
  second.close();
  CHECK_FALSE(second.is_open());
  CHECK(::close(number) == -1);  // it is closed already
  FileDescriptor third(::dup(0));
  const int released = third.release();
  CHECK_FALSE(third.is_open());
  CHECK(::close(released) == 0);
}

TEST_CASE("new name: does not replace a file or directory") {
  const TemporaryDirectory directory;
  const auto part = directory / "part", file = directory / "file", folder = directory / "folder";
  write_file_durably(part, "new");
  write_file_durably(file, "old");
  make_directories(folder);
  for (const auto& taken : {file, folder}) {
    const auto error = error_of([&] { rename_to_new(part, taken); });
    CHECK(error.find("cannot create " + taken.string()) != std::string::npos);
  }
  CHECK(read_file(file) == "old");
  rename_to_new(part, directory / "free");
  CHECK(read_file(directory / "free") == "new");
  CHECK(num_files(directory.path()) == 3);
}
