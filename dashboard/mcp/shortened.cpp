#include "dashboard/mcp/shortened.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "catalog/json_text.h"
#include "core/printable.h"

namespace lockstep::dashboard {
namespace {

constexpr size_t kMaxNotes = 10, kNoteBytes = 150;

struct JsonPart {
  Json* json;
  std::string path;
};

size_t bytes_of(const Json& json) { return catalog::to_text(json).size(); }

// The part to cut: the largest of the largest. A list of several items is cut as a whole, and so is
// an object of many small members, except the root.
JsonPart part_to_cut(Json& root) {
  JsonPart part{&root, ""};
  while (part.json->is_structured() && !part.json->empty()) {
    auto& json = *part.json;
    if (json.is_array() && json.size() > 1) return part;
    JsonPart largest{nullptr, ""};
    size_t largest_bytes = 0;
    for (const auto& item : json.items()) {
      const auto bytes = bytes_of(item.value());
      if (largest.json && bytes <= largest_bytes) continue;
      largest = {&item.value(), json.is_array()     ? part.path + "[0]"
                                : part.path.empty() ? item.key()
                                                    : part.path + "." + item.key()};
      largest_bytes = bytes;
    }
    const bool is_root = &json == &root;
    if (json.is_object() && !is_root && 4 * largest_bytes < bytes_of(json)) return part;
    part = std::move(largest);
  }
  return part;
}

size_t size_of(const Json& json) {
  return json.is_string() ? json.get_ref<const std::string&>().size() : json.size();
}

bool keeps_end(const std::string& path) { return path == "lines" || path.ends_with(".lines"); }

// Halves a part. False if it cannot be cut.
bool halve(const JsonPart& part) {
  auto& json = *part.json;
  const auto size = static_cast<ptrdiff_t>(size_of(json));
  if (size == 0 || !(json.is_string() || json.is_structured())) return false;
  if (json.is_string()) {
    auto& text = json.get_ref<std::string&>();
    auto end = static_cast<size_t>(size / 2);
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text.resize(end);
  } else if (json.is_object()) {
    std::vector<std::string> keys;
    for (const auto& item : json.items()) keys.push_back(item.key());
    for (auto i = static_cast<size_t>(size / 2); i < keys.size(); ++i) json.erase(keys[i]);
  } else if (keeps_end(part.path)) {
    json.erase(json.begin(), json.end() - size / 2);
  } else {
    json.erase(json.begin() + size / 2, json.end());
  }
  return true;
}

std::string note_of(const std::string& path, const Json& json, size_t size) {
  return fmt::format("{}: the {} {} of {}{}", printable(path, kNoteBytes / 2),
                     keeps_end(path) ? "last" : "first", size_of(json), size,
                     json.is_string() ? " bytes" : "");
}

}  // namespace

Json shortened(Json json, size_t max_bytes) {
  const auto limit = max_bytes - std::min(max_bytes, kMaxNotes * kNoteBytes);
  if (bytes_of(json) <= max_bytes) return json;
  std::map<std::string, size_t> sizes;  // before the cuts
  std::map<std::string, std::string> notes;
  while (bytes_of(json) > limit) {
    const auto part = part_to_cut(json);
    const auto size = sizes.try_emplace(part.path, size_of(*part.json)).first->second;
    if (!halve(part)) break;
    notes[part.path] = note_of(part.path, *part.json, size);
  }
  auto list = Json::array();
  for (const auto& [path, note] : notes)
    if (list.size() < kMaxNotes) list.push_back(note);
  json["cut"] = std::move(list);
  return json;
}

}  // namespace lockstep::dashboard
