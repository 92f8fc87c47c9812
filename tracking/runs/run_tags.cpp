#include "tracking/runs/run_tags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "core/bounded_json.h"
#include "core/printable.h"
#include "core/system/durable_file.h"
#include "core/system/file_lock.h"
#include "lockstep/config_value.h"
#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxTagBytes = 64, kMaxNoteBytes = 4096, kMaxTagsFileBytes = 1u << 20;
constexpr std::chrono::seconds kTagsLockTimeout{10};

bool is_tag(const std::string& text) {
  const auto allowed = [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) || std::string_view("._:/=-").find(static_cast<char>(c)) !=
                                               std::string_view::npos);
  };
  return !text.empty() && text.size() <= kMaxTagBytes && std::ranges::all_of(text, allowed) &&
         std::isalnum(static_cast<unsigned char>(text.front()));
}

RunTags tags_of(const Json& json) {
  RunTags tags;
  const auto valid = [](const Json& tag) {
    return tag.is_string() && is_tag(tag.get<std::string>());
  };
  if (!json.is_object() || !json.contains("tags") || !json["tags"].is_array() ||
      !std::ranges::all_of(json["tags"], valid) || !json.contains("note") ||
      !json["note"].is_string()) {
    tags.problem = "corrupt";
    return tags;
  }
  const auto listed = json["tags"].get<std::set<std::string>>();
  tags.tags.assign(listed.begin(), listed.end());
  tags.note = json["note"].get<std::string>();
  return tags;
}

void verify_note(const std::string& note) {
  if (note.size() > kMaxNoteBytes)
    throw config_error(
        fmt::format("the note has {} bytes; at most {} are allowed", note.size(), kMaxNoteBytes));
  if (find_invalid_utf8(note) != std::string::npos) throw config_error("the note is not UTF-8");
}

void apply_change(const std::string& change, std::set<std::string>& tags) {
  const auto tag = change.substr(1);
  if (!is_tag(tag))
    throw config_error(
        fmt::format("'{}' is not a valid tag: expected 1 to 64 of A-Z a-z 0-9 . _ : / = -, "
                    "starting with a letter or digit",
                    printable(tag)));
  if (change.front() == '+')
    tags.insert(tag);
  else if (tags.erase(tag) == 0)
    throw config_error(
        fmt::format("the run has no tag '{}'{}", tag,
                    tags.empty() ? "" : fmt::format("; it has {}", fmt::join(tags, ", "))));
}

}  // namespace

RunTags read_run_tags(const fs::path& run_dir) {
  const auto path = run_dir / "tags.json";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  RunTags tags;
  try {
    tags = tags_of(parse_json(read_file(path, kMaxTagsFileBytes)));
    if (!tags.problem.empty()) tags.problem = "tags.json is corrupt: repair or remove it";
  } catch (const Error& error) {
    tags.problem = error.what();
  }
  return tags;
}

RunTags change_run_tags(const fs::path& run_dir, const std::vector<std::string>& changes,
                        const std::optional<std::string>& note) {
  if (changes.empty() && !note) return read_run_tags(run_dir);
  if (note) verify_note(*note);
  const FileLock lock(run_dir / ".tags-lock", FileLock::Kind::Exclusive, kTagsLockTimeout);
  auto tags = read_run_tags(run_dir);
  if (!tags.problem.empty())
    throw environment_error(fmt::format("{}: {}", run_dir.string(), tags.problem));
  std::set<std::string> changed(tags.tags.begin(), tags.tags.end());
  for (const auto& change : changes) apply_change(change, changed);
  tags.tags.assign(changed.begin(), changed.end());
  if (note) tags.note = *note;
  const Json json = {{"tags", tags.tags}, {"note", tags.note}};
  write_file_durably(run_dir / "tags.json", json.dump(2) + "\n");
  return tags;
}

std::string tags_text(const RunTags& tags) {
  auto text = tags.tags.empty() ? "no tags" : fmt::format("{}", fmt::join(tags.tags, ", "));
  if (!tags.note.empty()) text += "; note: " + printable(tags.note, kMaxNoteBytes);
  return text;
}

}  // namespace lockstep::tracking
