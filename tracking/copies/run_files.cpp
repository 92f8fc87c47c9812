#include "tracking/copies/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/bounded_json.h"
#include "core/printable.h"
#include "lockstep/config_node.h"
#include "lockstep/config_value.h"
#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfigFile = "config.yaml", kEndsFolder = "ends/", kJsonEnd = ".json";
constexpr std::array kTopFiles = {
    std::string_view("run.json"),      kConfigFile,
    std::string_view("data.json"),     std::string_view("tags.json"),
    std::string_view("software.json"), std::string_view("rank_losses.json"),
    std::string_view("end.json")};
constexpr std::array kEndWitnesses = {"launcher-", "trainer-", "agent-"};
constexpr size_t kMaxNumberDigits = 10;

// ends/launcher-00000.json
bool is_end_name(std::string_view name) {
  if (!name.starts_with(kEndsFolder) || !name.ends_with(kJsonEnd)) return false;
  name.remove_prefix(kEndsFolder.size());
  name.remove_suffix(std::min(name.size(), kJsonEnd.size()));
  return std::ranges::any_of(kEndWitnesses, [&](std::string_view witness) {
    if (!name.starts_with(witness)) return false;
    const auto number = name.substr(witness.size());
    return !number.empty() && number.size() <= kMaxNumberDigits &&
           number.find_first_not_of("0123456789") == std::string_view::npos;
  });
}

bool is_plain_file(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() == fs::file_type::regular;
}

}  // namespace

bool is_run_file_name(std::string_view name) {
  return std::ranges::find(kTopFiles, name) != kTopFiles.end() || is_end_name(name);
}

bool is_removable_run_file(std::string_view name) {
  return name == "end.json" || name == "rank_losses.json" || is_end_name(name);
}

bool is_run_file_content(std::string_view name, const std::string& bytes) {
  if (find_invalid_utf8(bytes) != std::string::npos) return false;
  if (name != kConfigFile) return !parse_json(bytes).is_discarded();
  try {
    return parse_config(bytes, "config.yaml").kind == ConfigNode::Kind::Map;
  } catch (const Error&) {
    return false;
  }
}

std::vector<std::string> run_files(const fs::path& run_dir) {
  std::vector<std::string> names;
  for (const auto name : kTopFiles)
    if (is_plain_file(run_dir / name)) names.emplace_back(name);
  std::error_code error;
  const auto ends = run_dir / "ends";
  for (fs::directory_iterator it(ends, error), end; !error && it != end; it.increment(error)) {
    const auto name = "ends/" + it->path().filename().string();
    if (is_end_name(name) && is_plain_file(it->path())) names.push_back(name);
  }
  if (error && error != std::errc::no_such_file_or_directory)
    throw environment_error(fmt::format("cannot list {}: {}", ends.string(), error.message()));
  return names;
}

}  // namespace lockstep::tracking
