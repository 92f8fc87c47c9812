#include "formats/path_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/printable.h"

namespace lockstep::formats {
namespace {

std::vector<std::filesystem::path> objects_in(
    const std::filesystem::path& folder,
    const std::function<bool(const std::filesystem::path&)>& is_wanted, bool recursive) {
  const auto place = parse_store_path(folder);
  auto& cache = object_cache();
  auto found = cache.list(place);
  const auto begin = place.key.empty() ? 0 : place.key.size() + 1;
  std::erase_if(found, [&](const StorePath& file) {
    const bool is_below = file.key.find('/', begin) != file.key.npos;
    return (is_below && !recursive) || !is_wanted(file.path());
  });
  std::ranges::sort(found, {}, &StorePath::path);
  std::vector<std::filesystem::path> files;
  for (const auto& file : found) files.push_back(file.path());
  cache.fetch_ahead(std::move(found));
  return files;
}

}  // namespace

std::filesystem::path without_options(const std::filesystem::path& path) {
  return has_scheme(path) ? parse_store_path(path).path() : path;
}

bool is_folder(const std::filesystem::path& path) {
  std::error_code error;
  if (!has_scheme(path)) return std::filesystem::is_directory(path, error);
  return !object_cache().is_object(parse_store_path(path));
}

std::vector<std::filesystem::path> files_in(
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

LocalFile::LocalFile(const std::filesystem::path& path)
    : copy_(has_scheme(path) ? object_cache().open(parse_store_path(path))
                             : LocalCopy{.path = path, .lock = {}}) {}

int64_t max_open_files(const std::vector<std::filesystem::path>& files, int64_t limit) {
  int64_t largest = 1;
  for (const auto& file : files) {
    if (!has_scheme(file)) return limit;
    largest = std::max(largest, object_cache().size_of(parse_store_path(file)));
  }
  return std::clamp<int64_t>(object_cache().options().max_bytes / 4 / largest, 2, limit);
}

}  // namespace lockstep::formats
