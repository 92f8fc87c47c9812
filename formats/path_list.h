// Files of datasets: in directories, in buckets, or of other servers. No LibTorch.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "formats/store/object_cache.h"

namespace lockstep::formats {

// The path of an object without the options after "?", which are remembered; other paths as they are.
std::filesystem::path without_options(const std::filesystem::path& path);

// Whether `path` is a directory, or a prefix of objects in a bucket or repository and not itself an
// object. False for an https:// path.
// Throws as ObjectCache.
bool is_folder(const std::filesystem::path& path);

// The entries of a folder whose file names `is_wanted`, by name; `recursive`: also those of its
// subdirectories. Throws Environment if it cannot be listed; as ObjectCache.
std::vector<std::filesystem::path> list_files(
    const std::filesystem::path& folder,
    const std::function<bool(const std::filesystem::path&)>& is_wanted, bool recursive = false);

// The same. Objects are then fetched in the background, in this order.
std::vector<std::filesystem::path> files_in(
    const std::filesystem::path& folder,
    const std::function<bool(const std::filesystem::path&)>& is_wanted, bool recursive = false);

// Whether `path`, which an untrusted file names, is relative and leads to a file in its directory
// or below it: no empty parts, ".", ".." or zero bytes.
bool stays_in_folder(std::string_view path);

// The same for the name of a file in that directory itself.
bool is_plain_name(std::string_view name);

// Fetches the objects among these files in the background, in this order and before those of earlier
// calls.
void fetch_ahead(const std::vector<std::filesystem::path>& files);
// The same, of the files with these numbers.
void fetch_ahead(const std::vector<std::filesystem::path>& files,
                 const std::vector<size_t>& numbers);

// From now on, the versions of those in a store are the ones of their listings or, without one, those
// that are now requested, several at a time: others are errors when they are opened.
void pin_versions(const std::vector<std::filesystem::path>& files);

// Calls act(i) for the number of each file: in order, or several at a time if the first one is in a store.
void for_each_file(const std::vector<std::filesystem::path>& files,
                   const std::function<void(size_t)>& act);

// Reads bytes of a file of a store from `offset` on, all of `out`, and does not fetch the rest of it. Throws as ObjectCache.
void read_stored(const std::filesystem::path& file, int64_t offset, std::span<uint8_t> out);

// The bytes of a file of a store, as in its listing if list_files() listed it. Throws as ObjectCache.
int64_t stored_bytes(const std::filesystem::path& file);

// The files of a pattern: "train-{000..146}.tar" is train-000.tar to train-146.tar, and a path without
// a range is that file. Throws Config: an empty range, more than ObjectCache::kMaxListed files.
std::vector<std::filesystem::path> numbered_files(const std::filesystem::path& pattern);

// A local file with the content of `path`: itself, or the copy of an object, which is protected from
// eviction during the lifetime of this. Throws as ObjectCache.
class LocalFile {
 public:
  explicit LocalFile(const std::filesystem::path& path);
  const std::filesystem::path& path() const { return copy_.path; }

 private:
  LocalCopy copy_;
};

// The greatest number of these files to keep open: at most `limit`, and few enough that copies which
// are evicted while they are open, and still occupy the disk, are a small part of the cache.
// `largest`: their bytes, if known; else each object is requested.
int64_t max_open_files(const std::vector<std::filesystem::path>& files, int64_t limit,
                       int64_t largest = 0);

}  // namespace lockstep::formats
