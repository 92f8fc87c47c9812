#include "lockstep/config_node.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "core/printable.h"
#include "core/trimmed.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

constexpr size_t kMaxConfigBytes = 4u << 20;
constexpr size_t kMaxExpandedBytes = 16u << 20;
constexpr int kMaxNodes = 100'000;
constexpr int kMaxDepth = 64;

using OriginOf = std::function<std::string(const YAML::Mark&)>;

class Converter {
 public:
  explicit Converter(OriginOf origin_of) : origin_of_(std::move(origin_of)) {}

  ConfigNode convert(const YAML::Node& yaml, int depth = 0) {
    ConfigNode node;
    node.origin = origin_of_(yaml.Mark());
    if (++num_nodes_ > kMaxNodes)
      throw config_error(fmt::format("{}: more than {} values", node.origin, kMaxNodes));
    if (depth > kMaxDepth)
      throw config_error(fmt::format("{}: nested deeper than {} levels", node.origin, kMaxDepth));
    refuse_tag(yaml, node.origin);
    if (yaml.IsScalar()) {
      node.kind = ConfigNode::Kind::Scalar;
      node.scalar = yaml.Scalar();
      node.quoted = yaml.Tag() != "?";
      verify_text(node.scalar, node.origin);
    } else if (yaml.IsSequence()) {
      node.kind = ConfigNode::Kind::List;
      for (const auto& item : yaml) node.items.push_back(convert(item, depth + 1));
    } else if (yaml.IsMap()) {
      convert_members(yaml, node, depth);
    }
    return node;
  }

 private:
  // yaml-cpp uses the tag "?" for plain and "!" for quoted scalars.
  static void refuse_tag(const YAML::Node& yaml, const std::string& where) {
    const auto& tag = yaml.Tag();
    if (tag.empty() || tag == "?" || tag == "!" || tag == "tag:yaml.org,2002:str") return;
    throw config_error(
        fmt::format("{}: tag '{}' is not supported: write only the value", where, printable(tag)));
  }

  // Aliases are expanded at each use; the limits also apply to files that grow this way.
  void verify_text(const std::string& text, const std::string& where) {
    // yaml-cpp converts two escapes to single bytes that are not valid UTF-8.
    if (find_invalid_utf8(text) != std::string::npos)
      throw config_error(
          fmt::format("{}: write the escape \\N as \\u0085 and \\_ as \\u00a0", where));
    num_bytes_ += text.size();
    if (num_bytes_ > kMaxExpandedBytes)
      throw config_error(
          fmt::format("{}: aliases expand to more than {} MiB", where, kMaxExpandedBytes >> 20));
  }

  void convert_members(const YAML::Node& yaml, ConfigNode& node, int depth) {
    node.kind = ConfigNode::Kind::Map;
    std::unordered_set<std::string> keys;
    for (const auto& member : yaml) {
      const auto where = origin_of_(member.first.Mark());
      if (!member.first.IsScalar() || member.first.Scalar().empty())
        throw config_error(fmt::format("{}: keys must be non-empty plain text", where));
      const auto& key = member.first.Scalar();
      if (key == "<<")
        throw config_error(
            fmt::format("{}: merge keys ('<<') are not supported: repeat the keys", where));
      if (!keys.insert(key).second)
        throw config_error(fmt::format("{}: duplicate key '{}'", where, printable(key)));
      verify_text(key, where);
      auto value = convert(member.second, depth + 1);
      value.origin = where;  // the line of the key, not of the value
      node.members.emplace_back(key, std::move(value));
    }
  }

  OriginOf origin_of_;
  int num_nodes_ = 0;
  size_t num_bytes_ = 0;
};

// Throws for text that the parser would silently misread: it replaces invalid UTF-8 and treats 0x04
// as the end of the file.
void refuse_binary(const std::string& text, const OriginOf& origin_of) {
  const auto is_binary = [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t';
  };
  const auto control =
      static_cast<size_t>(std::find_if(text.begin(), text.end(), is_binary) - text.begin());
  const auto invalid = find_invalid_utf8(text);
  const auto at = std::min(control, invalid);
  if (at >= text.size()) return;
  YAML::Mark mark;
  mark.line =
      static_cast<int>(std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n'));
  const auto byte = printable(std::string_view(text).substr(at, 1));
  if (invalid == std::string::npos)
    throw config_error(
        fmt::format("{}: control character {} is not allowed", origin_of(mark), byte));
  throw config_error(fmt::format("{}: not UTF-8 text (byte {})", origin_of(mark), byte));
}

// yaml-cpp accepts an unclosed quote if the text ends with a line break, and so silently consumes
// the rest of the file. Appending a comment, which is not a line break, turns this into an error.
std::string with_visible_end(const std::string& text) {
  if (text.ends_with('\n') || text.ends_with('\r')) return text + "#";
  return text.ends_with(' ') || text.ends_with('\t') ? text + "\n#" : text;
}

// Records where a document starts.
class DocumentStart final : public YAML::EventHandler {
 public:
  YAML::Mark mark;

 private:
  void OnDocumentStart(const YAML::Mark& where) override { mark = where; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// YAML::Load() ignores everything after the first document; YAML::LoadAll() can loop forever.
void refuse_second_document(const std::string& text, const OriginOf& origin_of) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentStart start;
  parser.HandleNextDocument(start);
  if (parser.HandleNextDocument(start))
    throw config_error(
        fmt::format("{}: a run file must contain only one YAML document; a second one starts here",
                    origin_of(start.mark)));
}

// Names the first line that is indented with a tab; empty: none.
std::string hint_about_tabs(const std::string& text, const OriginOf& origin_of) {
  YAML::Mark mark;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line); ++mark.line)
    if (line.substr(0, line.find_first_not_of(" \t")).find('\t') != std::string::npos)
      return fmt::format("; {} is indented with a tab: YAML allows spaces only", origin_of(mark));
  return "";
}

// The key of a line "key:{...}" or "key:[...]", which YAML reads as one word; empty: another line.
std::string key_without_space(const std::string& line) {
  const auto begin = std::min(line.find_first_not_of(' '), line.size());
  const auto is_part_of_key = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
  };
  const auto end = static_cast<size_t>(
      std::find_if_not(line.begin() + static_cast<ptrdiff_t>(begin), line.end(), is_part_of_key) -
      line.begin());
  const bool is_joined = end > begin && end + 1 < line.size() && line[end] == ':' &&
                         (line[end + 1] == '{' || line[end + 1] == '[');
  return is_joined ? line.substr(begin, end - begin) : "";
}

// Names a key without a space after its colon, in the line `number` (from 0) of the error or in the
// one before, if the parser noticed it only at the next key; empty: none.
std::string hint_about_space(const std::string& text, int number) {
  std::istringstream lines(text);
  std::string line, key, previous;
  for (int i = 0; i <= number && std::getline(lines, line); ++i)
    previous = std::exchange(key, key_without_space(line));
  if (key.empty()) key = previous;
  return key.empty() ? "" : fmt::format("; write a space after '{}:'", key);
}

ConfigNode convert_text(const std::string& text, const std::string& name,
                        const OriginOf& origin_of) {
  refuse_binary(text, origin_of);
  try {
    const auto ended = with_visible_end(text);
    refuse_second_document(ended, origin_of);
    return Converter(origin_of).convert(YAML::Load(ended));
  } catch (const YAML::Exception& error) {
    const auto where = error.mark.is_null() ? name : origin_of(error.mark);
    throw config_error(fmt::format("{}: not valid YAML: {}{}{}", where, error.msg,
                                   hint_about_tabs(text, origin_of),
                                   hint_about_space(text, error.mark.line)));
  }
}

// Splits "a.b" into keys.
std::vector<std::string> split_path(const std::string& path, const std::string& origin) {
  std::vector<std::string> keys;
  for (size_t begin = 0; begin <= path.size();) {
    const auto dot = std::min(path.find('.', begin), path.size());
    keys.push_back(path.substr(begin, dot - begin));
    if (keys.back().empty())
      throw config_error(fmt::format("{}: '{}' has an empty key", origin, printable(path)));
    if (keys.size() > kMaxDepth)
      throw config_error(fmt::format("{}: nested deeper than {} levels", origin, kMaxDepth));
    begin = dot + 1;
  }
  return keys;
}

ConfigNode& member_of(ConfigNode& map, const std::string& key, const std::string& origin) {
  if (auto* member = map.find(key)) return *member;
  ConfigNode fresh;
  fresh.origin = origin;
  return map.members.emplace_back(key, std::move(fresh)).value;
}

// YAML would ignore the rest of the value.
void verify_no_comment(const std::string& assignment, size_t equals, const std::string& origin) {
  const auto value = assignment.substr(equals + 1);
  const bool has_comment = value.starts_with('#') || value.find(" #") != value.npos;
  if (has_comment && value.find_first_of("\"'") == value.npos)
    throw config_error(fmt::format("{}: '#' begins a comment; quote the value: {}='\"...\"'",
                                   origin, printable(assignment.substr(0, equals))));
}

// YAML reads directives ("%5"), tags ("!5"), anchors ("&5") and separators ("---") as no value.
void verify_is_null(std::string_view text, const std::string& path, const std::string& origin) {
  text = trimmed(text, " \t\r\n");
  for (const std::string_view null : {"null", "Null", "NULL", "~"})
    if (text == null) return;
  throw config_error(fmt::format("{}: YAML reads this value as nothing; quote it: {}='\"...\"'",
                                 origin, printable(path)));
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
  if (text.size() > kMaxConfigBytes)
    throw config_error(fmt::format("{}: larger than {} MiB", name, kMaxConfigBytes >> 20));
  auto root = convert_text(text, name, [&](const YAML::Mark& mark) {
    return mark.is_null() ? name : fmt::format("{}:{}", name, mark.line + 1);
  });
  if (root.kind == ConfigNode::Kind::Null) root.kind = ConfigNode::Kind::Map;  // an empty file
  if (root.kind != ConfigNode::Kind::Map)
    throw config_error(fmt::format("{}: expected a map of 'key: value' lines", name));
  return root;
}

ConfigNode read_config_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw config_error(fmt::format("{}: is a directory, not a run file", path.string()));
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw config_error(fmt::format("{}: cannot be read: {}", path.string(), std::strerror(errno)));
  std::string text(kMaxConfigBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) throw config_error(fmt::format("{}: cannot be read completely", path.string()));
  text.resize(static_cast<size_t>(file.gcount()));
  return parse_config(text, path.string());
}

void apply_override(ConfigNode& root, const std::string& assignment) {
  auto origin = fmt::format("argument '{}'", printable(assignment));
  const auto equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0)
    throw config_error(fmt::format("{}: expected key.subkey=value", origin));
  if (assignment.find_first_not_of(" \t\r\n", equals + 1) == std::string::npos)
    throw config_error(
        fmt::format("{}: the value is empty (is a shell variable not set?); expected {}VALUE: null "
                    "only for an optional key, '\"\"' only for a text",
                    origin, printable(assignment.substr(0, equals + 1))));
  verify_no_comment(assignment, equals, origin);
  auto value = convert_text(assignment.substr(equals + 1), origin,
                            [&](const YAML::Mark&) { return origin; });
  if (value.kind == ConfigNode::Kind::Null)
    verify_is_null(std::string_view(assignment).substr(equals + 1), assignment.substr(0, equals),
                   origin);
  const auto keys = split_path(assignment.substr(0, equals), origin);
  auto* node = &root;
  std::string path;
  for (const auto& key : keys) {
    if (node->kind == ConfigNode::Kind::Null) node->kind = ConfigNode::Kind::Map;
    if (node->kind != ConfigNode::Kind::Map)
      throw config_error(
          fmt::format("{}: '{}' is not a map and has no member '{}'", origin, path, key));
    node = &member_of(*node, key, origin);
    path += (path.empty() ? "" : ".") + key;
  }
  *node = std::move(value);
}

}  // namespace lockstep
