#include "formats/path_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/printable.h"
#include "formats/store/process_cache.h"

namespace lockstep::formats {
namespace {

std::vector<std::filesystem::path> objects_in(
    const std::filesystem::path& folder,
    const std::function<bool(const std::filesystem::path&)>& is_wanted, bool recursive) {
  const auto place = parse_store_path(folder);
  auto found = object_cache().list(place);
  const auto begin = place.key.empty() ? 0 : place.key.size() + 1;
  std::erase_if(found, [&](const StorePath& file) {
    const bool is_below = file.key.find('/', begin) != file.key.npos;
    if ((is_below && !recursive) || !is_wanted(file.path())) return true;
    if (file.key.find('?') != file.key.npos)  // would begin the options of its path
      throw config_error(fmt::format("{}: the key '{}' has a '?', which is not supported",
                                     printable(folder.string(), 400), printable(file.key, 400)));
    return false;
  });
  std::ranges::sort(found, {}, &StorePath::path);
  std::vector<std::filesystem::path> files;
  for (const auto& file : found) files.push_back(file.path());
  return files;
}

std::vector<StorePath> stored_among(const std::vector<std::filesystem::path>& files) {
  std::vector<StorePath> objects;
  for (const auto& file : files)
    if (has_scheme(file)) objects.push_back(parse_store_path(file));
  return objects;
}

constexpr size_t kMaxRangeDigits = 18;

// "{FIRST..LAST}" in a path.
struct NumberRange {
  size_t begin = 0, end = 0;  // in the path
  uint64_t first = 0, last = 0;
  size_t width = 0;  // of the numbers, filled with zeros
};

std::optional<uint64_t> range_bound(std::string_view digits) {
  uint64_t value = 0;
  const auto* end = digits.data() + digits.size();
  if (digits.empty() || digits.size() > kMaxRangeDigits) return std::nullopt;
  const auto parsed = std::from_chars(digits.data(), end, value);
  return parsed.ec == std::errc() && parsed.ptr == end ? std::optional(value) : std::nullopt;
}

// The first range from `start` on.
std::optional<NumberRange> find_range(std::string_view path, size_t start) {
  for (auto open = path.find('{', start); open != path.npos; open = path.find('{', open + 1)) {
    const auto dots = path.find("..", open), close = path.find('}', open);
    if (close == path.npos || dots == path.npos || dots > close) continue;
    const auto first = path.substr(open + 1, dots - open - 1);
    const auto last = path.substr(dots + 2, close - dots - 2);
    const auto from = range_bound(first), to = range_bound(last);
    if (!from || !to) continue;
    const bool is_filled = first.starts_with('0') || last.starts_with('0');
    return NumberRange{open, close + 1, *from, *to,
                       is_filled ? std::max(first.size(), last.size()) : 0};
  }
  return std::nullopt;
}

// Replaces each range of `path`, from `start` on, by each of its numbers.
void add_numbered(const std::string& path, size_t start,
                  std::vector<std::filesystem::path>& files) {
  const auto range = find_range(path, start);
  if (!range) {
    if (files.size() == ObjectCache::kMaxListed)
      throw config_error(
          fmt::format("{}: more than {} files", printable(path, 400), ObjectCache::kMaxListed));
    files.emplace_back(path);
    return;
  }
  if (range->first > range->last)
    throw config_error(fmt::format("{}: the range {} to {} has no numbers", printable(path, 400),
                                   range->first, range->last));
  for (auto number = range->first; number <= range->last; ++number) {
    auto begin = path.substr(0, range->begin) + fmt::format("{:0{}}", number, range->width);
    const auto next = begin.size();
    add_numbered(begin + path.substr(range->end), next, files);
  }
}

}  // namespace

std::filesystem::path without_options(const std::filesystem::path& path) {
  return has_scheme(path) ? parse_store_path(path).path() : path;
}

bool is_folder(const std::filesystem::path& path) {
  std::error_code error;
  if (!has_scheme(path)) return std::filesystem::is_directory(path, error);
  const auto place = parse_store_path(path);
  // The files of a folder cannot be listed over HTTP.
  return options_of_store(place).kind != StoreKind::Http && !object_cache().is_object(place);
}

std::vector<std::filesystem::path> list_files(
    const std::filesystem::path& folder,
    const std::function<bool(const std::filesystem::path&)>& is_wanted, bool recursive) {
  namespace fs = std::filesystem;
  if (has_scheme(folder)) return objects_in(folder, is_wanted, recursive);
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (is_wanted(at->path())) files.push_back(at->path());
  if (error)
    throw environment_error(
        fmt::format("{}: cannot be listed: {}", printable(folder.string(), 400), error.message()));
  std::ranges::sort(files);
  return files;
}

std::vector<std::filesystem::path> files_in(
    const std::filesystem::path& folder,
    const std::function<bool(const std::filesystem::path&)>& is_wanted, bool recursive) {
  auto files = list_files(folder, is_wanted, recursive);
  fetch_ahead(files);
  return files;
}

bool stays_in_folder(std::string_view path) {
  while (true) {
    const auto part = path.substr(0, path.find('/'));
    if (part.empty() || part == "." || part == ".." || part.find('\0') != part.npos) return false;
    if (part.size() == path.size()) return true;
    path.remove_prefix(part.size() + 1);
  }
}

bool is_plain_name(std::string_view name) {
  return stays_in_folder(name) && name.find('/') == name.npos;
}

void fetch_ahead(const std::vector<std::filesystem::path>& files) {
  auto objects = stored_among(files);
  if (!objects.empty()) object_cache().fetch_ahead(std::move(objects));
}

void pin_versions(const std::vector<std::filesystem::path>& files) {
  const auto objects = stored_among(files);
  if (!objects.empty()) object_cache().pin(objects);
}

void fetch_ahead(const std::vector<std::filesystem::path>& files,
                 const std::vector<size_t>& numbers) {
  std::vector<std::filesystem::path> chosen;
  for (const auto number : numbers) chosen.push_back(files[number]);
  fetch_ahead(chosen);
}

void for_each_file(const std::vector<std::filesystem::path>& files,
                   const std::function<void(size_t)>& act) {
  if (!files.empty() && has_scheme(files.front()))
    return object_cache().for_each(std::ssize(files), act);
  for (size_t i = 0; i < files.size(); ++i) act(i);
}

void read_stored(const std::filesystem::path& file, int64_t offset, std::span<uint8_t> out) {
  object_cache().read(parse_store_path(file), offset, out);
}

int64_t stored_bytes(const std::filesystem::path& file) {
  return object_cache().size_of(parse_store_path(file));
}

std::vector<std::filesystem::path> numbered_files(const std::filesystem::path& pattern) {
  std::vector<std::filesystem::path> files;
  add_numbered(without_options(pattern).string(), 0, files);
  return files;
}

LocalFile::LocalFile(const std::filesystem::path& path)
    : copy_(has_scheme(path) ? object_cache().open(parse_store_path(path))
                             : LocalCopy{.path = path, .lock = {}}) {}

int64_t max_open_files(const std::vector<std::filesystem::path>& files, int64_t limit,
                       int64_t largest) {
  if (!std::ranges::all_of(files, has_scheme)) return limit;
  if (largest == 0)
    for (const auto& file : files) largest = std::max(largest, stored_bytes(file));
  const auto& options = object_cache().options();
  const auto own_part = options.max_bytes / 4 / std::max<int64_t>(options.processes, 1);
  return std::clamp<int64_t>(own_part / std::max<int64_t>(largest, 1), 2, limit);
}

}  // namespace lockstep::formats
