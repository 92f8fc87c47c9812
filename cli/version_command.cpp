// `lockstep version`
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "cli/command_words.h"
#include "cli/commands.h"
#include "core/printable.h"
#include "launch/environment/torch_folder.h"
#include "lockstep/error.h"
#include "lockstep/version.h"

namespace lockstep::cli {
namespace {

constexpr const char* kVersionHelp =
    R"(lockstep version: print the version, and which LibTorch it uses

  lockstep version [--torch-dir]

  --torch-dir   print only the folder of the LibTorch that training uses; exit code 75 if there is
                none of the right version
)";

constexpr const char* kBuiltFor = LOCKSTEP_TORCH_VERSION;  // empty: built without LibTorch

std::string found_torch() {
  try {
    const auto torch = launch::find_torch(launch::own_prefix(), kBuiltFor);
    return fmt::format("{} in {} ({})", printable(torch.version, 60), torch.root.string(),
                       torch.found_by);
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

std::filesystem::path arrow_next_to_torch() {
  return launch::find_torch(launch::own_prefix(), kBuiltFor).root.parent_path() / "pyarrow";
}

int version_command(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (wants_help({argv + 1, argv + argc})) {
    fmt::print("{}", kVersionHelp);
    return 0;
  }
  if (argc > 1 && words[1] == "--torch-dir") {
    fmt::print("{}\n", launch::find_torch(launch::own_prefix(), kBuiltFor).root.string());
    verify_written();
    return 0;
  }
  if (argc > 1)
    throw config_error(fmt::format("lockstep version: unexpected argument '{}'", words[1]));
  fmt::print("lockstep {}\n", kVersion);
  if (*kBuiltFor) fmt::print("built for LibTorch {}\nLibTorch: {}\n", kBuiltFor, found_torch());
  verify_written();
  return 0;
}

}  // namespace lockstep::cli
