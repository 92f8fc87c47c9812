// Arbitrary text as the path of a file of a run: opened files are inside the run directory, which
// has symbolic links to the outside.

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "catalog/run_files.h"
#include "tests/fuzz/seeds.h"
#include "tests/temporary_directory.h"

namespace {

namespace fs = std::filesystem;

struct RunWithLinks {
  lockstep::TemporaryDirectory root;
  fs::path run = root.path() / "run";
  std::set<ino_t> inner;

  RunWithLinks() {
    fs::create_directories(run / "a" / "b");
    std::ofstream(root.path() / "secret") << "secret";
    for (const char* name : {"f", "a/f", "a/b/f"}) {
      std::ofstream(run / name) << name;
      struct stat info {};
      ::stat((run / name).c_str(), &info);
      inner.insert(info.st_ino);
    }
    fs::create_directory_symlink(root.path(), run / "up");
    fs::create_directory_symlink("/", run / "a" / "root");
    fs::create_symlink(root.path() / "secret", run / "s");
  }
};

}  // namespace

std::vector<std::string> lockstep::fuzz_seeds() {
  return {"f",         "a/f",      "a/b/f",       "../secret",         "a/../../secret",
          "up/secret", "s",        "/etc/passwd", "a/root/etc/passwd", "./f",
          "a//f",      "a/b/../f", "..",          "%2e%2e/secret",     "f/..",
          "a\\..\\f"};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const RunWithLinks directory;
  const std::string_view path(reinterpret_cast<const char*>(data), size);
  const auto file = lockstep::catalog::open_inner_file(directory.run, path);
  if (!file.file) return 0;
  struct stat info {};
  if (::fstat(file.file->get(), &info) != 0 || !directory.inner.contains(info.st_ino)) std::abort();
  return 0;
}
