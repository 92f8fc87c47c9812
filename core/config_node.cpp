#include "core/config_node.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>

#include "core/error.h"

namespace lockstep {
namespace {

constexpr size_t kMaxBytes = 4u << 20;
constexpr int kMaxNodes = 100'000;
constexpr int kMaxDepth = 64;

using OriginOf = std::function<std::string(const YAML::Mark&)>;

class Converter {
 public:
  explicit Converter(OriginOf origin_of) : origin_of_(std::move(origin_of)) {}

  ConfigNode convert(const YAML::Node& yaml, int depth = 0) {
    ConfigNode node;
    node.origin = origin_of_(yaml.Mark());
    // An alias is expanded at each use: the limits also stop files that grow that way.
    if (++num_nodes_ > kMaxNodes)
      throw config_error(fmt::format("{}: more than {} values", node.origin, kMaxNodes));
    if (depth > kMaxDepth)
      throw config_error(fmt::format("{}: nested deeper than {} levels", node.origin, kMaxDepth));
    if (yaml.IsScalar()) {
      node.kind = ConfigNode::Kind::Scalar;
      node.scalar = yaml.Scalar();
      node.quoted = yaml.Tag() == "!";
    } else if (yaml.IsSequence()) {
      node.kind = ConfigNode::Kind::List;
      for (const auto& item : yaml) node.items.push_back(convert(item, depth + 1));
    } else if (yaml.IsMap()) {
      convert_members(yaml, node, depth);
    }
    return node;
  }

 private:
  void convert_members(const YAML::Node& yaml, ConfigNode& node, int depth) {
    node.kind = ConfigNode::Kind::Map;
    for (const auto& member : yaml) {
      const auto where = origin_of_(member.first.Mark());
      if (!member.first.IsScalar())
        throw config_error(fmt::format("{}: a key must be plain text", where));
      const auto& key = member.first.Scalar();
      if (node.find(key)) throw config_error(fmt::format("{}: key '{}' is given twice", where, key));
      auto value = convert(member.second, depth + 1);
      value.origin = where;  // the line of the key is what an editor should jump to
      node.members.emplace_back(key, std::move(value));
    }
  }

  OriginOf origin_of_;
  int num_nodes_ = 0;
};

ConfigNode convert_text(const std::string& text, const std::string& name, const OriginOf& origin_of) {
  try {
    return Converter(origin_of).convert(YAML::Load(text));
  } catch (const YAML::Exception& error) {
    const auto where = error.mark.is_null() ? name : origin_of(error.mark);
    throw config_error(fmt::format("{}: not valid YAML: {}", where, error.msg));
  }
}

}  // namespace

const ConfigNode* ConfigNode::find(const std::string& key) const {
  for (const auto& [name, value] : members)
    if (name == key) return &value;
  return nullptr;
}

ConfigNode* ConfigNode::find(const std::string& key) {
  return const_cast<ConfigNode*>(std::as_const(*this).find(key));
}

ConfigNode parse_config(const std::string& text, const std::string& name) {
  if (text.size() > kMaxBytes)
    throw config_error(fmt::format("{}: larger than {} MiB", name, kMaxBytes >> 20));
  auto root = convert_text(text, name, [&](const YAML::Mark& mark) {
    return fmt::format("{}:{}", name, mark.line + 1);
  });
  if (root.kind == ConfigNode::Kind::Null) root.kind = ConfigNode::Kind::Map;  // an empty file
  if (root.kind != ConfigNode::Kind::Map)
    throw config_error(fmt::format("{}: a run file is a map of 'key: value' lines", name));
  return root;
}

ConfigNode read_config_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw config_error(fmt::format("{}: is a directory, not a run file", path.string()));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw config_error(fmt::format("{}: cannot be read: {}", path.string(), std::strerror(errno)));
  std::string text(kMaxBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return parse_config(text, path.string());
}

void apply_override(ConfigNode& root, const std::string& assignment) {
  const auto origin = fmt::format("argument '{}'", assignment);
  const auto equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0)
    throw config_error(fmt::format("{}: an override is written key.subkey=value", origin));
  auto value = convert_text(assignment.substr(equals + 1), origin,
                            [&](const YAML::Mark&) { return origin; });
  const auto path = assignment.substr(0, equals);
  auto* node = &root;
  for (size_t begin = 0; begin <= path.size();) {
    const auto dot = std::min(path.find('.', begin), path.size());
    const auto key = path.substr(begin, dot - begin);
    if (key.empty()) throw config_error(fmt::format("{}: '{}' has an empty key", origin, path));
    if (node->kind == ConfigNode::Kind::Null) node->kind = ConfigNode::Kind::Map;
    if (node->kind != ConfigNode::Kind::Map)
      throw config_error(
          fmt::format("{}: '{}' is no map, it has no '{}'", origin, path.substr(0, begin ? begin - 1 : 0), key));
    auto* member = node->find(key);
    if (!member) {
      ConfigNode fresh;
      fresh.origin = origin;
      member = &node->members.emplace_back(key, std::move(fresh)).second;
    }
    node = member;
    begin = dot + 1;
  }
  *node = std::move(value);
}

}  // namespace lockstep
