// A parsed run file: a tree of maps, lists and scalars in which every node remembers where it was
// written. Reading is strict. Config errors are: duplicate keys, keys that are no plain text, tags
// (!x), merge keys (<<), a second document, bytes that are not UTF-8 text, and trees beyond the
// limits (4 MiB of text, 64 levels, 100,000 values and 16 MiB with aliases expanded).
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

// Throws Config: not readable, not YAML (with file:line), or not as strict as above.
ConfigNode read_config_file(const std::filesystem::path& path);

// The same for text that is already in memory; `name` stands for the file in messages.
ConfigNode parse_config(const std::string& text, const std::string& name);

// Sets what `assignment` ("a.b=value", the value in YAML) says, creating maps on the way. A map
// given as value replaces the whole member. Throws Config when it has no '=', an empty key, or a
// path through a scalar or list.
void apply_override(ConfigNode& root, const std::string& assignment);

}  // namespace lockstep
