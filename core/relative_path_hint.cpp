#include "core/relative_path_hint.h"

#include <fmt/format.h>

#include "core/printable.h"

namespace lockstep {

std::string relative_path_hint(const std::filesystem::path& path, std::string_view kind) {
  std::error_code error;
  const auto here = std::filesystem::current_path(error);
  if (path.is_absolute() || error) return {};
  return fmt::format(" ({} paths are relative to the working directory, {})", kind,
                     printable(here.string(), 400));
}

}  // namespace lockstep
