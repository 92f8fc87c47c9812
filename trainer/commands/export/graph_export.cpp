#include "trainer/commands/export/graph_export.h"

#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "core/printable.h"
#include "core/system/child_process.h"
#include "core/system/durable_file.h"
#include "launch/environment/torch_folder.h"
#include "lockstep/error.h"
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

// Of the environment of LibTorch, whose version the package was compiled for; otherwise on the PATH.
std::string find_compiler() {
  const auto torch = torch_directory();
  // Of a wheel: ENVIRONMENT/lib/pythonX/site-packages/torch/lib.
  const auto program = (torch / "../../../../../bin" / kCompiler).lexically_normal();
  if (!torch.empty() && launch::is_program(program)) return program.string();
  if (const auto found = launch::program_on_path(kCompiler); !found.empty()) return found.string();
  throw environment_error(
      fmt::format("this format needs {}, which is neither in the Python environment of "
                  "LibTorch ({}) nor on the PATH: pip install './python[compile]', in the "
                  "directory of Lockstep's sources",
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
  make_directories(wanted.out.parent_path());
  ::execv(words[0].c_str(), pointers_to(words).data());
  throw environment_error(
      fmt::format("cannot start '{}': {}", printable(words[0], 300), std::strerror(errno)));
}

}  // namespace lockstep::trainer
