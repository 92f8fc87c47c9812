// Source: NVIDIA's README, "The /proc Interface".
#include "tracking/runs/software.h"

#include <array>
#include <fstream>
#include <sstream>
#include <utility>

#include "core/bounded_json.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

constexpr size_t kMaxSoftwareBytes = 256u << 10;
constexpr std::array kVersions = {"lockstep", "libtorch", "nvidia_driver", "python"};

std::filesystem::path software_path(const std::filesystem::path& run_dir) {
  return run_dir / "software.json";
}

bool is_driver_version(const std::string& word) {
  return word.find('.') != std::string::npos &&
         word.find_first_not_of("0123456789.") == std::string::npos;
}

// {"numpy": "2.1.0"}, without other values.
Json versions_of(const Json& packages) {
  auto versions = Json::object();
  if (packages.is_object())
    for (const auto& [name, version] : packages.items())
      if (version.is_string()) versions[name] = version;
  return versions;
}

}  // namespace

// NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.133.20  Sun Mar 30 ...
std::string nvidia_driver_version(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  std::istringstream words(line);
  for (std::string word; words >> word;)
    if (is_driver_version(word)) return word;
  return "";
}

void write_software(const std::filesystem::path& run_dir, Json software) {
  if (auto driver = nvidia_driver_version(); !driver.empty())
    software["nvidia_driver"] = std::move(driver);
  write_file_durably(software_path(run_dir), software.dump(2) + "\n");
}

Json read_software(const std::filesystem::path& run_dir) try {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(software_path(run_dir), ignored)) return Json::object();
  const auto json = parse_json(read_file(software_path(run_dir), kMaxSoftwareBytes));
  auto software = Json::object();
  if (!json.is_object()) return software;
  for (const char* name : kVersions)
    if (const auto it = json.find(name); it != json.end() && it->is_string()) software[name] = *it;
  if (auto packages = versions_of(json.value("packages", Json())); !packages.empty())
    software["packages"] = std::move(packages);
  return software;
} catch (const Error&) {
  return Json::object();
}

}  // namespace lockstep::tracking
