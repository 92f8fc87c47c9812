// Tags and a note that users attach to a run, in <run>/tags.json: {"tags": ["baseline"], "note":
// "the good one"}.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::tracking {

struct RunTags {
  std::vector<std::string> tags;  // ascending, without duplicates
  std::string note;               // may be empty
  std::string problem;            // why the file cannot be read; otherwise empty
};

// Empty if there is no file. Never throws because of its content.
RunTags read_run_tags(const std::filesystem::path& run_dir);

// `changes`: "+tag" adds, "-tag" removes; a tag is 1 to 64 of [A-Za-z0-9._:/=-] and starts with a
// letter or digit. `note` replaces the previous one; at most 4096 bytes. Durable, and safe if
// another process does the same. Returns the result. Throws Config, and Environment if the file is
// corrupt or cannot be written.
RunTags change_run_tags(const std::filesystem::path& run_dir,
                        const std::vector<std::string>& changes,
                        const std::optional<std::string>& note);

// "baseline, good; note: the good one", on one line.
std::string tags_text(const RunTags& tags);

}  // namespace lockstep::tracking
