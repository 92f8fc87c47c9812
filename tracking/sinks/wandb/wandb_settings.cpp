#include "tracking/sinks/wandb/wandb_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "core/printable.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

constexpr const char* kWandbCloud = "https://api.wandb.ai";
constexpr size_t kMaxNetrcBytes = 1 << 20;

std::string wandb_variable(const Environment& environment, const char* name) {
  return environment(name).value_or("");
}

std::vector<std::string> split_tags(const std::string& text) {
  std::vector<std::string> tags;
  std::istringstream words(text);
  for (std::string tag; std::getline(words, tag, ',');) {
    const auto begin = tag.find_first_not_of(" \t");
    if (begin == std::string::npos) continue;
    tags.push_back(tag.substr(begin, tag.find_last_not_of(" \t") - begin + 1));
  }
  return tags;
}

WandbMode wandb_mode(const std::string& mode) {
  if (mode.empty() || mode == "online" || mode == "run") return WandbMode::Online;
  if (mode == "offline" || mode == "dryrun") return WandbMode::Offline;
  if (mode == "disabled") return WandbMode::Disabled;
  throw config_error(
      fmt::format("WANDB_MODE is '{}': expected online, offline or disabled", printable(mode)));
}

std::string wandb_base_url(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  const auto scheme = url.find("://");
  const bool is_http = url.starts_with("http://") || url.starts_with("https://");
  if (url.find('@') != std::string::npos)
    throw config_error("the address of the W&B server must not contain a user or password");
  if (!is_http || url.size() <= scheme + 3)
    throw config_error(fmt::format(
        "the W&B server '{}' is not an address such as https://api.wandb.ai", printable(url)));
  return url;
}

// "https://api.wandb.ai" -> "api.wandb.ai"
std::string host_of(const std::string& url) {
  const auto begin = url.find("://") + 3;
  return url.substr(begin, url.find_first_of(":/", begin) - begin);
}

// Returns the password for `host` in a netrc file, or an empty string.
std::string netrc_password(const std::string& text, const std::string& host) {
  std::istringstream words(text);
  bool matches = false;
  for (std::string word, value; words >> word;) {
    if (word == "default")
      matches = true;
    else if (word == "machine" && words >> value)
      matches = value == host;
    else if (word == "password" && words >> value && matches)
      return value;
    else if (word == "login" || word == "account")
      words >> value;
  }
  return "";
}

std::string key_from_netrc(const std::string& host, const Environment& environment) {
  const auto home = wandb_variable(environment, "HOME");
  std::filesystem::path file = wandb_variable(environment, "NETRC");
  if (file.empty() && !home.empty()) file = std::filesystem::path(home) / ".netrc";
  std::error_code ignored;
  if (file.empty() || !std::filesystem::is_regular_file(file, ignored)) return "";
  return netrc_password(read_file(file, kMaxNetrcBytes), host);
}

}  // namespace

WandbSettings wandb_settings(const WandbConfig& config, const Environment& environment) {
  const auto chosen = [&](const std::optional<std::string>& value, const char* name,
                          const char* otherwise) {
    if (value) return *value;
    const auto given = wandb_variable(environment, name);
    return given.empty() ? std::string(otherwise) : given;
  };
  WandbSettings settings;
  settings.mode =
      config.mode ? *config.mode : wandb_mode(wandb_variable(environment, "WANDB_MODE"));
  const auto base_url = config.base_url ? std::optional(config.base_url->text) : std::nullopt;
  settings.base_url = wandb_base_url(chosen(base_url, "WANDB_BASE_URL", kWandbCloud));
  settings.app_url = settings.base_url == kWandbCloud ? "https://wandb.ai" : settings.base_url;
  settings.project = chosen(config.project, "WANDB_PROJECT", "lockstep");
  settings.entity = chosen(config.entity, "WANDB_ENTITY", "");
  settings.notes = chosen(config.notes, "WANDB_NOTES", "");
  settings.tags =
      config.tags.empty() ? split_tags(wandb_variable(environment, "WANDB_TAGS")) : config.tags;
  settings.group = wandb_variable(environment, "WANDB_RUN_GROUP");
  settings.job_type = wandb_variable(environment, "WANDB_JOB_TYPE");
  settings.name = wandb_variable(environment, "WANDB_NAME");
  if (const auto root = wandb_variable(environment, "WANDB_DIR"); !root.empty())
    settings.root = root;
  return settings;
}

std::string wandb_api_key(const std::string& base_url, const Environment& environment) {
  auto key = wandb_variable(environment, "WANDB_API_KEY");
  if (key.empty()) key = key_from_netrc(host_of(base_url), environment);
  if (key.empty())
    throw config_error(fmt::format(
        "no key for the W&B server {}: set WANDB_API_KEY (or run `wandb login`), or set `mode: "
        "offline` and upload later with `lockstep sync RUN --sink wandb`",
        base_url));
  if (!std::ranges::all_of(key, [](unsigned char c) { return c > 0x20 && c < 0x7f; }))
    throw config_error("WANDB_API_KEY (or its entry in netrc) contains an invalid character");
  return key;
}

}  // namespace lockstep::tracking
