#include "trainer/commands/export/graph_export.h"

#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <vector>

#include "core/printable.h"
#include "core/system/child_process.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"
#include "models/package_reference.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCompiler = "lockstep-compile";

// The directory of the loaded LibTorch; empty if it is not a shared library.
fs::path torch_directory() {
  fs::path found;
  ::dl_iterate_phdr(
      [](dl_phdr_info* library, size_t, void* result) {
        const fs::path path = library->dlpi_name;
        if (path.filename() != "libtorch_cpu.so") return 0;
        *static_cast<fs::path*>(result) = path.parent_path().lexically_normal();
        return 1;
      },
      &found);
  return found;
}

std::string find_compiler() {
  std::vector<fs::path> folders;
  std::istringstream path(environment("PATH").value_or(""));
  for (std::string folder; std::getline(path, folder, ':');) folders.emplace_back(folder);
  // Of a wheel: ENVIRONMENT/lib/pythonX/site-packages/torch/lib.
  const auto torch = torch_directory();
  folders.push_back((torch / "../../../../../bin").lexically_normal());
  for (const auto& folder : folders) {
    const auto program = folder / kCompiler;
    std::error_code ignored;
    if (fs::is_regular_file(program, ignored) && ::access(program.c_str(), X_OK) == 0)
      return program.string();
  }
  throw environment_error(
      fmt::format("this format needs {}, which is neither on the PATH nor in the Python "
                  "environment of LibTorch "
                  "({}): pip install './python[compile]', in the directory of Lockstep's sources",
                  kCompiler, printable(torch.string(), 300)));
}

}  // namespace

void export_graph(const GraphExport& wanted) {
  std::error_code ignored;
  if (wanted.package.empty() && !fs::exists(wanted.checkpoint / models::kPackageReference, ignored))
    throw config_error(fmt::format(
        "--format {}: {} names no compiled package: a model in C++ has no graph to export; use "
        "--format safetensors, or train a package of lockstep-compile (for a run of an earlier "
        "version, name its package with --package)",
        wanted.format, printable(wanted.checkpoint.string(), 300)));
  std::vector<std::string> words = {find_compiler(),    "export",      wanted.checkpoint.string(),
                                    "--format",         wanted.format, "--out",
                                    wanted.out.string()};
  if (!wanted.package.empty()) words.insert(words.end(), {"--package", wanted.package});
  ::execv(words[0].c_str(), pointers_to(words).data());
  throw environment_error(
      fmt::format("cannot start '{}': {}", printable(words[0], 300), std::strerror(errno)));
}

}  // namespace lockstep::trainer
