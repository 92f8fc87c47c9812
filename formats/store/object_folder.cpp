#include "formats/store/object_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/printable.h"
#include "core/system/durable_file.h"
#include "core/system/full_io.h"
#include "formats/store/ordered_pieces.h"
#include "formats/store/process_cache.h"

namespace lockstep::formats {
namespace {

constexpr int64_t kFetchedBytes = int64_t{8} << 20;  // in a request
constexpr int kFetchThreads = 7;                     // requests at a time, less that of the caller

std::string error_text() { return std::generic_category().message(errno); }

}  // namespace

ObjectFolder::ObjectFolder(StorePath place, std::chrono::milliseconds timeout)
    : place_(std::move(place)), retries_(timeout) {
  const auto options = options_of_store(place_);
  if (!is_bucket(options.kind))
    throw config_error(printable(place_.path().string(), 400) +
                       ": not in a bucket, and can only be read; valid: s3://bucket/prefix");
  use_buckets();
  store_ = open_object_store(options);
}

std::string ObjectFolder::key_of(const std::string& name) const {
  if (name.empty()) return place_.key;
  return place_.key.empty() ? name : place_.key + "/" + name;
}

std::string ObjectFolder::path_of(const std::string& name) const {
  return StorePath{place_.bucket, key_of(name), place_.scheme}.path();
}

std::vector<ObjectInfo> ObjectFolder::list(const std::string& folder) {
  auto found = retries_.run([&] { return store_->list(key_of(folder), kMaxObjects); });
  const auto root = key_of("");
  for (auto& object : found)
    if (!root.empty()) object.key.erase(0, root.size() + 1);
  return found;
}

void ObjectFolder::write(const std::string& name, const FileDescriptor& file) {
  retries_.run([&] {
    uint64_t done = 0;
    store_->write(key_of(name), [&](std::span<uint8_t> out) {
      const auto count =
          read_all_at(file.get(), reinterpret_cast<char*>(out.data()), out.size(), done);
      if (!count) throw environment_error(fmt::format("reading {}: {}", name, error_text()));
      done += *count;
      retries_.wait_for_bytes(*count);
      return *count;
    });
  });
}

void ObjectFolder::write_text(const std::string& name, std::string_view text) {
  retries_.run([&] {
    auto left = text;
    store_->write(key_of(name), [&](std::span<uint8_t> out) {
      const auto count = std::min(out.size(), left.size());
      std::copy_n(left.begin(), count, out.begin());
      left.remove_prefix(count);
      return count;
    });
  });
}

void ObjectFolder::remove(const std::string& name) {
  retries_.run([&] { store_->remove(key_of(name)); });
}

void ObjectFolder::remove_all(const std::string& folder) {
  retries_.run([&] { store_->remove_all(key_of(folder)); });
}

std::string ObjectFolder::read(const ObjectInfo& object, int64_t offset, int64_t size) {
  auto known = object;
  known.key = key_of(object.key);
  std::string bytes(static_cast<size_t>(size), '\0');
  if (size > 0)
    retries_.run([&] {
      retries_.wait_for_bytes(bytes.size());
      store_->read(known, offset, {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
    });
  return bytes;
}

void ObjectFolder::fetch(const ObjectInfo& object, const std::filesystem::path& file) {
  make_directories(file.parent_path());
  const FileDescriptor out(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!out.is_open()) throw environment_error(file.string() + ": " + error_text());
  OrderedPieces(kFetchThreads)
      .run({.name = {}, .count = (object.size + kFetchedBytes - 1) / kFetchedBytes},
           [&](int64_t first, int64_t last) {
             const auto begin = first * kFetchedBytes;
             const auto end = std::min(last * kFetchedBytes, object.size);
             const auto bytes = read(object, begin, end - begin);
             if (!write_all_at(out.get(), bytes, static_cast<uint64_t>(begin)))
               throw environment_error(file.string() + ": " + error_text());
           });
  if (::fsync(out.get()) != 0) throw environment_error(file.string() + ": " + error_text());
}

}  // namespace lockstep::formats
