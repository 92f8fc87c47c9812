// Source: NVIDIA's README, "The /proc Interface".
#include "tracking/runs/software.h"

#include <fstream>
#include <sstream>

#include "core/system/durable_file.h"
#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

constexpr size_t kMaxSoftwareBytes = 256u << 10;

std::filesystem::path software_path(const std::filesystem::path& run_dir) {
  return run_dir / "software.json";
}

bool is_driver_version(const std::string& word) {
  return word.find('.') != std::string::npos &&
         word.find_first_not_of("0123456789.") == std::string::npos;
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
  auto json = Json::parse(read_file(software_path(run_dir), kMaxSoftwareBytes), nullptr, false);
  return json.is_object() ? json : Json::object();
} catch (const Error&) {
  return Json::object();
}

}  // namespace lockstep::tracking
