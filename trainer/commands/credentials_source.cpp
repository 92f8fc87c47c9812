#include "trainer/commands/credentials_source.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <sstream>

#include "core/printable.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// The section of an INI file of the AWS tools that has this key; nullopt: none, or no such file.
std::optional<std::string> section_with_key(const fs::path& file, const std::string& key) {
  std::istringstream lines;
  try {
    lines.str(read_file(file, 1u << 20));
  } catch (const Error&) {
    return std::nullopt;
  }
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    line = trimmed(line);
    const auto equals = line.find('=');
    if (line.starts_with('[')) {
      section = trimmed(line.substr(1, line.find(']') - 1));
      if (section.starts_with("profile ")) section = trimmed(section.substr(8));
    } else if (equals != line.npos && trimmed(line.substr(0, equals)) == "aws_access_key_id" &&
               trimmed(line.substr(equals + 1)) == key) {
      return section;
    }
  }
  return std::nullopt;
}

fs::path file_of_aws(const char* variable, const char* name) {
  if (const auto file = environment(variable)) return *file;
  return fs::path(environment("HOME").value_or("")) / ".aws" / name;
}

}  // namespace

std::string source_of_credentials(const std::string& access_key_id) {
  if (environment("AWS_ACCESS_KEY_ID") == access_key_id) return "AWS_ACCESS_KEY_ID";
  for (const auto& file : {file_of_aws("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
                           file_of_aws("AWS_CONFIG_FILE", "config")})
    if (const auto section = section_with_key(file, access_key_id))
      return fmt::format("profile '{}' of {}", printable(*section), printable(file.string(), 200));
  if (environment("AWS_WEB_IDENTITY_TOKEN_FILE")) return "AWS_WEB_IDENTITY_TOKEN_FILE";
  if (environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") ||
      environment("AWS_CONTAINER_CREDENTIALS_FULL_URI"))
    return "the role of the container";
  return "the role of this machine, or a program that a profile names";
}

}  // namespace lockstep::trainer
