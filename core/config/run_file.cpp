#include "core/config/run_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExtends = "extends";

bool is_variable_name(const std::string& name) {
  const auto is_part = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name.front())) &&
         std::all_of(name.begin(), name.end(), is_part);
}

std::string value_of_variable(const std::string& name, const std::string& origin,
                              const GetVariable& get_variable) {
  if (!is_variable_name(name))
    throw config_error(
        fmt::format("{}: '${{{}}}' is not the name of an environment variable; write '$${{' for "
                    "the characters '${{'",
                    origin, printable(name)));
  const auto value = get_variable(name);
  if (!value)
    throw config_error(fmt::format("{}: the environment variable {} is not set", origin, name));
  // Run files are recorded as JSON.
  if (const auto at = find_invalid_utf8(*value); at != std::string::npos)
    throw config_error(fmt::format("{}: the environment variable {} is not UTF-8 text (byte {})",
                                   origin, name,
                                   printable(std::string_view(*value).substr(at, 1))));
  return *value;
}

std::string expanded(const std::string& text, const std::string& origin,
                     const GetVariable& get_variable) {
  std::string result;
  size_t begin = 0;
  if (text == "~" || text.starts_with("~/")) {
    result = value_of_variable("HOME", origin, get_variable);
    begin = 1;
  }
  while (begin < text.size()) {
    const auto dollar = std::min(text.find("${", begin), text.size());
    result += text.substr(begin, dollar - begin);
    if (dollar == text.size()) break;
    begin = dollar + 2;
    if (dollar > 0 && text[dollar - 1] == '$') {
      result += '{';  // "$${": the first '$' was already appended
      continue;
    }
    const auto end = text.find('}', begin);
    if (end == std::string::npos)
      throw config_error(fmt::format("{}: '${{' without '}}' in '{}'", origin, printable(text)));
    result += value_of_variable(text.substr(begin, end - begin), origin, get_variable);
    begin = end + 1;
  }
  return result;
}

void expand_all(ConfigNode& node, const GetVariable& get_variable) {
  if (node.kind == ConfigNode::Kind::Scalar)
    node.scalar = expanded(node.scalar, node.origin, get_variable);
  for (auto& item : node.items) expand_all(item, get_variable);
  for (auto& member : node.members) expand_all(member.value, get_variable);
}

// A different `name` selects a different part, which has different keys. Does not apply to
// `run.name`.
bool is_another_part(const ConfigNode& base, const ConfigNode& top, const std::string& path) {
  const auto *before = base.find("name"), *after = top.find("name");
  return path != "run" && before && after && before->scalar != after->scalar;
}

void merge_into(ConfigNode& base, ConfigNode top, const std::string& path) {
  const bool both_maps = base.kind == ConfigNode::Kind::Map && top.kind == ConfigNode::Kind::Map;
  if (!both_maps || is_another_part(base, top, path)) {
    base = std::move(top);
    return;
  }
  for (auto& [key, value] : top.members) {
    auto* member = base.find(key);
    if (member)
      merge_into(*member, std::move(value), path.empty() ? key : fmt::format("{}.{}", path, key));
    else
      base.members.emplace_back(key, std::move(value));
  }
}

// `above`: the files that extend this one, directly or indirectly.
ConfigNode read_extended(const fs::path& path, const GetVariable& get_variable,
                         std::vector<fs::path> above) {
  auto root = read_config_file(path);
  const auto found = std::ranges::find(root.members, kExtends, &ConfigNode::Member::key);
  if (found == root.members.end()) return root;
  const auto node = found->value;
  root.members.erase(found);
  if (node.kind != ConfigNode::Kind::Scalar || node.scalar.empty())
    throw bad_value(node, kExtends, "the path of a run file");
  const auto base_path =
      (path.parent_path() / expanded(node.scalar, node.origin, get_variable)).lexically_normal();
  std::error_code error;
  above.push_back(fs::weakly_canonical(path, error));
  if (std::ranges::find(above, fs::weakly_canonical(base_path, error)) != above.end())
    throw config_error(fmt::format("{}: extends: {} extends this file, directly or indirectly",
                                   node.origin, printable(base_path.string(), 400)));
  if (!fs::exists(base_path, error))
    throw config_error(
        fmt::format("{}: extends: {} does not exist; paths are relative to the run file",
                    node.origin, printable(base_path.string(), 400)));
  auto base = read_extended(base_path, get_variable, std::move(above));
  merge_into(base, std::move(root), "");
  return base;
}

}  // namespace

bool is_run_file(const std::string& path) {
  return path.ends_with(".yaml") || path.ends_with(".yml");
}

ConfigNode read_run_file(const fs::path& path, const std::vector<std::string>& overrides,
                         const GetVariable& get_variable) {
  auto root = read_extended(path, get_variable, {});
  for (const auto& assignment : overrides) apply_override(root, assignment);
  root.origin = path.string();
  expand_all(root, get_variable);
  return root;
}

Json with_escaped_variables(Json config) {
  if (config.is_structured())
    for (auto& value : config) value = with_escaped_variables(std::move(value));
  if (!config.is_string()) return config;
  auto text = config.get<std::string>();
  for (auto at = text.find("${"); at != std::string::npos; at = text.find("${", at + 3))
    text.insert(at, 1, '$');
  return text;
}

}  // namespace lockstep
