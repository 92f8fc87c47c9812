#include "trainer/commands/credentials_source.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <sstream>

#include "core/printable.h"
#include "core/system/durable_file.h"
#include "core/trimmed.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;

std::string without_spaces(const std::string& text) { return std::string(trimmed(text, " \t\r")); }

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
    line = without_spaces(line);
    const auto equals = line.find('=');
    if (line.starts_with('[')) {
      section = without_spaces(line.substr(1, line.find(']') - 1));
      if (section.starts_with("profile ")) section = without_spaces(section.substr(8));
    } else if (equals != line.npos &&
               without_spaces(line.substr(0, equals)) == "aws_access_key_id" &&
               without_spaces(line.substr(equals + 1)) == key) {
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

std::string source_of_identity(const formats::BucketOptions& options) {
  if (options.kind == formats::StoreKind::Hub)
    return options.token.empty() ? "no token: public repositories only"
                                 : "token from " + printable(options.token_source, 200);
  if (options.is_anonymous)
    return options.kind == formats::StoreKind::Azure
               ? "not used (?anonymous=true)"
               : "not used (?anonymous=true, or another server than Google's)";
  if (options.kind == formats::StoreKind::Azure) {
    if (!options.account_key.empty()) return "AZURE_STORAGE_KEY of " + printable(options.account);
    if (!options.token.empty()) return "AZURE_STORAGE_SAS_TOKEN";
    return "an identity: AZURE_CLIENT_ID and others, of this machine, or of `az login`";
  }
  if (const auto file = environment("GOOGLE_APPLICATION_CREDENTIALS"))
    return "GOOGLE_APPLICATION_CREDENTIALS: " + printable(*file, 200);
  return "those of `gcloud auth application-default login`, or of this machine";
}

}  // namespace lockstep::trainer
