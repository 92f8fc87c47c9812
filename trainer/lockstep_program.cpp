#include "trainer/lockstep_program.h"

#include <fmt/format.h>

#include "launch/environment/torch_folder.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockstep = "lockstep";

}  // namespace

fs::path lockstep_program(int64_t launcher) {
  std::error_code error;
  const auto folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const auto& path : {folder / kLockstep, folder / ".." / ".." / "bin" / kLockstep})
    if (launch::is_program(path)) return path.lexically_normal();
  if (launcher > 0) {
    const auto program = fs::read_symlink(fmt::format("/proc/{}/exe", launcher), error);
    if (program.filename() == kLockstep && launch::is_program(program)) return program;
  }
  return launch::program_on_path(kLockstep);
}

std::string shown_program(const fs::path& program) {
  std::error_code error;
  const auto found = launch::program_on_path(kLockstep);
  if (program.empty() || (!found.empty() && fs::equivalent(found, program, error)))
    return kLockstep;
  const auto from_here = fs::proximate(program, error).string();
  return from_here.size() < program.string().size() ? from_here : program.string();
}

}  // namespace lockstep::trainer
