// A parsed run file: a tree of maps, lists and scalars. Every node stores its source location for
// error messages.
//
// Parsing is strict. The following are Config errors: duplicate keys, keys that are not plain text,
// tags (!x), merge keys (<<), a second document, text that is not UTF-8, and trees that exceed the
// limits (4 MiB of text, 64 levels, 100,000 values and 16 MiB with aliases expanded).
//
// Example:
//   std::string model_of(const std::filesystem::path& run_file) {
//     auto root = lockstep::read_config_file(run_file);
//     lockstep::apply_override(root, "model.name=mlp");
//     return root.find("model")->find("name")->scalar;  // "mlp"
//   }
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

struct ConfigNode {
  enum class Kind { Null, Scalar, List, Map };
  struct Member;

  Kind kind = Kind::Null;
  std::string scalar;             // Scalar: its text
  bool quoted = false;            // Scalar: "1" is text, 1 is a number
  std::vector<ConfigNode> items;  // List
  std::vector<Member> members;    // Map, in the order written
  std::string origin;             // "configs/mnist.yaml:7" or "argument 'a.b=c'"

  // The member called `key`, or nullptr. Requires a Map.
  const ConfigNode* find(const std::string& key) const;
  ConfigNode* find(const std::string& key);
};

struct ConfigNode::Member {
  std::string key;
  ConfigNode value;
};

// Throws Config, with file and line, when the file cannot be read or violates the rules above.
ConfigNode read_config_file(const std::filesystem::path& path);

// Parses text that is already in memory; `name` is used as the file name in messages.
ConfigNode parse_config(const std::string& text, const std::string& name);

// Applies "a.b=value", where the value is YAML. Creates missing maps along the path. A value that
// is a map replaces the whole member. Throws Config when '=' is missing, a key is empty, or the
// path goes through a scalar or a list.
void apply_override(ConfigNode& root, const std::string& assignment);

}  // namespace lockstep
