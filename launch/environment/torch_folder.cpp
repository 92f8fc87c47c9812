#include "launch/environment/torch_folder.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>

#include "core/minor_version.h"
#include "launch/environment/openmp_wait.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kPythonTimeout{20};
constexpr const char *kLibraryPath = "LD_LIBRARY_PATH", *kPathBefore = "LOCKSTEP_LD_LIBRARY_PATH";
constexpr size_t kMaxAnswerBytes = 4096;
constexpr const char* kWhereTorch = R"(
import sys
sys.path[:] = [p for p in sys.path if p]
import importlib.util
spec = importlib.util.find_spec('torch')
print(list(spec.submodule_search_locations)[0] if spec and spec.origin else '')
)";

struct TorchPlace {
  fs::path path;
  std::string name;
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_torch(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "lib" / "libtorch_cpu.so", ignored);
}

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// The text between the first `begin` and the next `end`.
std::string between(const std::string& text, const std::string& begin, char end) {
  const auto from = text.find(begin);
  if (from == std::string::npos) return "";
  const auto first = from + begin.size();
  const auto last = text.find(end, first);
  return last == std::string::npos ? "" : text.substr(first, last - first);
}

TorchFolder describe_torch(const fs::path& root, const std::string& found_by) {
  TorchFolder torch{.root = root, .version = {}, .found_by = found_by};
  const auto package = root / "share" / "cmake" / "Torch";
  torch.version = between(text_of(root / "version.py"), "__version__ = '", '\'');
  if (torch.version.empty())
    torch.version =
        between(text_of(package / "TorchConfigVersion.cmake"), "PACKAGE_VERSION \"", '"');
  torch.old_abi =
      text_of(package / "TorchConfig.cmake").find("_GLIBCXX_USE_CXX11_ABI=0") != std::string::npos;
  return torch;
}

// The folders of `parent` whose names begin with `begin`, in order.
std::vector<fs::path> folders_with(const fs::path& parent, const std::string& begin) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (fs::directory_iterator entry(parent, ignored), end; entry != end; entry.increment(ignored))
    if (entry->path().filename().string().starts_with(begin)) found.push_back(entry->path());
  std::ranges::sort(found);
  return found;
}

// Every LibTorch at `place`.
std::vector<TorchFolder> torches_at(const TorchPlace& place) {
  std::vector<fs::path> roots = {place.path, place.path / "torch", place.path / ".."};
  for (const char* lib : {"lib", "lib64", "local/lib"})
    for (const auto& python : folders_with(place.path / lib, "python3"))
      for (const char* packages : {"site-packages", "dist-packages"})
        roots.push_back(python / packages / "torch");
  std::vector<TorchFolder> found;
  for (const auto& root : roots)
    if (is_torch(root)) found.push_back(describe_torch(root.lexically_normal(), place.name));
  return found;
}

std::vector<TorchPlace> places(const fs::path& prefix) {
  std::vector<TorchPlace> all;
  const auto add = [&](const fs::path& path, const std::string& name) {
    if (!path.empty()) all.push_back({path, name});
  };
  std::string pinned = text_of(prefix / "lib" / "lockstep" / "torch-dir");
  add(pinned.substr(0, pinned.find('\n')), "lib/lockstep/torch-dir");
  add(prefix, "next to Lockstep");
  add(variable("VIRTUAL_ENV"), "VIRTUAL_ENV");
  add(variable("CONDA_PREFIX"), "CONDA_PREFIX");
  if (const auto python = program_on_path("python3"); !python.empty())
    add(python.parent_path().parent_path(), "python3 on PATH");
  if (const auto home = variable("HOME"); !home.empty()) add(fs::path(home) / ".local", "~/.local");
  return all;
}

// What `program -c code` prints, at most kMaxAnswerBytes; empty if it fails or exceeds the time.
std::string python_answer(const fs::path& program, const char* code) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return "";
  const std::string path = program.string();
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    const int null = ::open("/dev/null", O_RDWR);
    ::dup2(null, STDERR_FILENO);
    ::dup2(null, STDIN_FILENO);
    ::execl(path.c_str(), path.c_str(), "-c", code, static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ::close(ends[1]);
  std::string answer;
  const auto deadline = std::chrono::steady_clock::now() + kPythonTimeout;
  while (child > 0 && answer.size() < kMaxAnswerBytes) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd wanted{.fd = ends[0], .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || ::poll(&wanted, 1, static_cast<int>(left.count())) <= 0) break;
    char buffer[512];
    const auto count = ::read(ends[0], buffer, sizeof buffer);
    if (count <= 0) break;
    answer.append(buffer, static_cast<size_t>(count));
  }
  ::close(ends[0]);
  if (child <= 0) return "";
  ::kill(child, SIGKILL);  // no effect after its end
  ::waitpid(child, nullptr, 0);
  return answer.substr(0, answer.find('\n'));
}

// For environments that other means extend: .pth files, PYTHONPATH, system site packages.
std::vector<TorchFolder> imported_torches(const fs::path& prefix) {
  std::vector<fs::path> pythons = {prefix / "bin" / "python3"};
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const auto folder = variable(name); !folder.empty())
      pythons.push_back(fs::path(folder) / "bin" / "python3");
  if (const auto python = program_on_path("python3"); !python.empty()) pythons.push_back(python);
  std::vector<TorchFolder> found;
  for (auto python = pythons.begin(); python != pythons.end(); ++python) {
    if (::access(python->c_str(), X_OK) != 0) continue;
    if (std::find(pythons.begin(), python, *python) != python) continue;
    const auto root = python_answer(*python, kWhereTorch);
    if (!root.empty() && is_torch(root)) found.push_back(describe_torch(root, python->string()));
  }
  return found;
}

std::string what_is_wrong(const TorchFolder& torch, const std::string& built_for) {
  const auto found = "LibTorch " +
                     (torch.version.empty() ? "of an unknown version" : torch.version) + " in " +
                     torch.root.string() + " (" + torch.found_by + ")";
  if (torch.old_abi)
    return found + " has the C++ ABI before C++11, which Lockstep does not support";
  return found + " does not fit: this Lockstep was built for " + minor_of(built_for);
}

bool fits(const TorchFolder& torch, const std::string& built_for) {
  return !torch.old_abi && minor_of(torch.version) == minor_of(built_for);
}

TorchFolder named_torch(const std::string& place, const std::string& built_for) {
  const auto found = torches_at({place, "LOCKSTEP_TORCH"});
  for (const auto& torch : found)
    if (fits(torch, built_for)) return torch;
  if (!found.empty()) throw config_error(what_is_wrong(found.front(), built_for));
  throw config_error("LOCKSTEP_TORCH or --torch: no LibTorch in '" + place +
                     "'; expected the folder of a torch package, or an environment that has one");
}

}  // namespace

fs::path own_prefix() {
  std::error_code error;
  const auto self = fs::read_symlink("/proc/self/exe", error);
  if (error) throw environment_error("cannot read /proc/self/exe: " + error.message());
  return self.parent_path().parent_path();
}

bool is_program(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
}

fs::path program_on_path(const std::string& name) {
  std::istringstream folders(variable("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (folder.empty()) continue;
    const auto program = fs::path(folder) / name;
    if (is_program(program)) return program;
  }
  return {};
}

TorchFolder find_torch(const fs::path& prefix, const std::string& built_for) {
  if (const auto place = variable("LOCKSTEP_TORCH"); !place.empty())
    return named_torch(place, built_for);
  std::optional<TorchFolder> other;
  const auto first_fitting = [&](const std::vector<TorchFolder>& found) {
    const auto torch = std::ranges::find_if(
        found, [&](const TorchFolder& candidate) { return fits(candidate, built_for); });
    if (!other && torch == found.end() && !found.empty()) other = found.front();
    return torch == found.end() ? std::optional<TorchFolder>() : *torch;
  };
  for (const auto& place : places(prefix))
    if (const auto torch = first_fitting(torches_at(place))) return *torch;
  if (const auto torch = first_fitting(imported_torches(prefix))) return *torch;
  const auto advice = "install it (pip install 'torch==" + minor_of(built_for) +
                      ".*'), activate its environment, or name it with LOCKSTEP_TORCH or --torch";
  if (other) throw environment_error(what_is_wrong(*other, built_for) + "; " + advice);
  throw environment_error("no LibTorch found, which training needs: " + advice);
}

void name_torch(const std::string& place) { ::setenv("LOCKSTEP_TORCH", place.c_str(), 1); }

void put_on_library_path(const TorchFolder& torch) {
  const auto before = variable(kLibraryPath);
  ::setenv(kPathBefore, before.c_str(), 1);
  auto path = (torch.root / "lib").string();
  std::error_code ignored;
  const auto arrow = torch.root.parent_path() / "pyarrow";
  if (fs::exists(arrow, ignored)) path += ":" + arrow.string();
  if (!before.empty()) path += ":" + before;
  ::setenv(kLibraryPath, path.c_str(), 1);
}

void set_spin_count() {
  if (!std::getenv("OMP_WAIT_POLICY")) ::setenv(kSpinVariable, kSpinCount, /*overwrite=*/0);
}

void restore_library_path() {
  if (!std::getenv(kPathBefore)) return;
  const auto before = variable(kPathBefore);
  ::unsetenv(kPathBefore);
  if (before.empty())
    ::unsetenv(kLibraryPath);
  else
    ::setenv(kLibraryPath, before.c_str(), 1);
}

}  // namespace lockstep::launch
