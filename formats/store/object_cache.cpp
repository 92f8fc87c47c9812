#include "formats/store/object_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "core/system/durable_file.h"
#include "core/system/full_io.h"
#include "formats/store/cache_directory.h"
#include "formats/store/process_cache.h"

namespace lockstep::formats {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int64_t kUnitBytes = int64_t{1} << 19;  // pieces are multiples
constexpr size_t kSimilarKeys = 1000;

std::string shown(const StorePath& place) { return printable(place.path().string(), 400); }

// The key of the "directory" of a key.
std::string parent_of(const std::string& key) {
  const auto slash = key.find_last_of('/');
  return slash == key.npos ? "" : key.substr(0, slash);
}

StoreError replaced_error(const StorePath& place) {
  return {StoreFailure::Other, ErrorKind::Environment, shown(place) + ": " + kObjectChanged};
}

}  // namespace

ObjectCache::ObjectCache(ObjectCacheOptions options)
    : options_(std::move(options)),
      retries_(options_.timeout),
      unknown_version_(fmt::format("{} {}", ::getpid(),
                                   std::chrono::system_clock::now().time_since_epoch().count())),
      reads_(options_.hedges),
      pieces_(options_.connections) {
  make_directories(options_.directory);
}

ObjectCache::~ObjectCache() {
  stop_.request_stop();
  retries_.stop();
  changed_.notify_all();
  std::vector<std::jthread> threads;
  {
    const MutexLock lock(mutex_);
    threads.swap(threads_);
  }
}

ObjectStore& ObjectCache::store_of(const StorePath& place) {
  const auto options = options_of_store(place);
  if (is_bucket(options.kind)) use_buckets();
  const MutexLock lock(mutex_);
  auto& store = stores_[place.with_key("").path().string()];
  if (!store) store = open_object_store(options);
  return *store;
}

// The answer of a bucket to a failed request for information has no body, so the reason is that of
// a listing.
ObjectInfo ObjectCache::request_info(const StorePath& place) {
  auto& store = store_of(place);
  try {
    auto object = retries_.run([&] { return reads_.info(store, place.key); });
    // Copies of other processes can be of another version.
    if (object.tag.empty() && object.modified == 0) object.tag = unknown_version_;
    return object;
  } catch (const StoreError& error) {
    if (error.failure() == StoreFailure::Temporary || !is_bucket(options_of_store(place).kind))
      throw;
    retries_.run([&] { store.verify_listing(parent_of(place.key)); });
    throw;
  }
}

ObjectInfo ObjectCache::expected(const StorePath& place) {
  const auto path = place.path().string();
  if (const auto known = versions_.requested(path)) return *known;
  const auto object = request_info(place);
  verify_as_listed(place, object);
  return versions_.note_request(path, object);
}

void ObjectCache::verify_as_listed(const StorePath& place, const ObjectInfo& object) {
  if (versions_.is_as_listed(place, object)) return;
  if (versions_.listed_bytes(place.path().string()) == object.size) {
    auto& store = store_of(place);
    const auto parent = parent_of(place.key);
    const auto now = retries_.run([&] { return store.list(parent, kMaxListed + 1); });
    if (versions_.is_listed_again(place, now)) return;
  }
  throw replaced_error(place);
}

void ObjectCache::pin(const std::vector<StorePath>& places) {
  std::vector<StorePath> unknown;
  for (const auto& place : places)
    if (!versions_.pin(place.path().string())) unknown.push_back(place);
  for_each(std::ssize(unknown), [&](size_t i) { expected(unknown[i]); });
}

void ObjectCache::for_each(int64_t count, const std::function<void(size_t)>& act) {
  pieces_.run({.name = "objects", .count = count}, [&](int64_t begin, int64_t end) {
    for (auto i = begin; i < end; ++i) act(static_cast<size_t>(i));
  });
}

bool ObjectCache::is_object(const StorePath& place) {
  if (place.key.empty()) return false;
  try {
    expected(place);
    return true;
  } catch (const StoreError& error) {
    if (error.failure() == StoreFailure::NoKey) return false;
    throw;
  }
}

int64_t ObjectCache::size_of(const StorePath& place) {
  const auto listed = versions_.listed_bytes(place.path().string());
  return listed ? *listed : expected(place).size;
}

std::vector<StorePath> ObjectCache::list(const StorePath& place) {
  auto& store = store_of(place);
  const auto found = retries_.run([&] { return store.list(place.key, kMaxListed + 1); });
  if (found.size() > kMaxListed)
    throw config_error(
        fmt::format("{}: more than {} objects; use fewer, larger files", shown(place), kMaxListed));
  std::vector<StorePath> places;
  for (const auto& object : found) places.push_back(place.with_key(object.key));
  versions_.note_listing(places, found);
  if (!places.empty()) return places;
  if (place.key.empty()) throw config_error(shown(place) + ": has no objects");
  retries_.run([&] { store.verify_listing(""); });  // whether there is such a bucket
  const auto similar = retries_.run([&] { return store.list(parent_of(place.key), kSimilarKeys); });
  std::vector<std::string> keys;
  for (const auto& object : similar) {
    keys.push_back(object.key);
    for (auto key = parent_of(object.key); !key.empty(); key = parent_of(key)) keys.push_back(key);
  }
  const auto nearest = nearest_name(place.key, keys);
  throw config_error(fmt::format(
      "{}: no such object, and no objects below this prefix{}", shown(place),
      nearest ? fmt::format("; did you mean '{}'?", shown(place.with_key(*nearest))) : ""));
}

LocalCopy ObjectCache::open(const StorePath& place) {
  const auto begin = Clock::now();
  bool was_there = true;
  const OrderedPieces::First first(pieces_, place.path().string());
  auto copy = wait_or_fetch(place, expected(place), 0, was_there);
  note_opened(place.path().string());
  counters_.hits += was_there;
  counters_.wait_us +=
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count();
  return copy;
}

void ObjectCache::read(const StorePath& place, int64_t offset, std::span<uint8_t> out) {
  const auto object = expected(place);
  auto copy = open_version(copy_of(place, object), object);
  if (!copy && object.has_ranges && read_range(place, object, offset, out)) return;
  if (!copy) copy = open(place).lock;
  const auto count = read_all_at(copy->get(), reinterpret_cast<char*>(out.data()), out.size(),
                                 static_cast<uint64_t>(offset));
  if (!count || *count < out.size())
    throw errno_error(shown(place) + ": its copy in the cache cannot be read");
}

fs::path ObjectCache::copy_of(const StorePath& place, const ObjectInfo& object) const {
  const auto options = options_of_store(place);
  // Versions of a repository can be read at the same time: one does not replace the other.
  const auto version = options.kind == StoreKind::Hub ? "\n" + object.tag : "";
  return options_.directory / copy_name(options.endpoint + version, place.bucket, place.key);
}

// `ahead`: the number of an object that is fetched ahead; 0: a caller waits for it.
LocalCopy ObjectCache::wait_or_fetch(const StorePath& place, const ObjectInfo& object,
                                     int64_t ahead, bool& was_there) {
  const auto copy = copy_of(place, object);
  // The process that fetches it has the same timeout for each request.
  const Patience patience{2 * options_.timeout, stop_.get_token()};
  for (;;) {
    auto found = copy_or_part(copy, object, patience, shown(place));
    if (found.copy) return {copy, std::move(*found.copy)};
    const auto part = found.part->get();
    reserve_space(options_.directory, options_.max_bytes, part, object.size, patience,
                  shown(place));
    fetch(place, object, ahead, part);
    complete_part(copy, part, object, shown(place));
    was_there = false;
  }
}

PageBytes ObjectCache::read_piece(ObjectStore& store, const ObjectInfo& object, int64_t offset,
                                  int64_t size) {
  if (stop_.stop_requested()) throw ended_error();
  auto bytes = retries_.run([&] {
    retries_.wait_for_bytes(static_cast<size_t>(size));
    return reads_.read(store, object, offset, size);
  });
  counters_.bytes += size;
  return bytes;
}

void ObjectCache::fetch_piece(ObjectStore& store, const ObjectInfo& object, int64_t begin,
                              int64_t end, int file) {
  const auto size = end - begin;
  const auto bytes = read_piece(store, object, begin, size);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!write_all_at(file, text, static_cast<uint64_t>(begin)))
    throw errno_error(printable(object.key, 400) + ": cannot be written to the cache");
  // The disk begins now, so that mark_version() waits for the last pieces only.
  if (size < object.size) (void)::sync_file_range(file, begin, size, SYNC_FILE_RANGE_WRITE);
}

// False: the server sends no ranges of it after all.
bool ObjectCache::fetch_pieces(const StorePath& place, const ObjectInfo& object, int64_t ahead,
                               int file) {
  auto& store = store_of(place);
  try {
    pieces_.run(
        {.name = place.path().string(),
         .count = (object.size + kUnitBytes - 1) / kUnitBytes,
         .order = ahead,
         .piece_units = [&] { return (reads_.piece_bytes() + kUnitBytes / 2) / kUnitBytes; },
         // Processes that wait for it see progress before they take this one for stuck.
         .idle = ahead == 0 ? std::chrono::milliseconds(0) : options_.timeout / 2},
        [&](int64_t begin, int64_t end) {
          fetch_piece(store, object, begin * kUnitBytes, std::min(end * kUnitBytes, object.size),
                      file);
        });
    return true;
  } catch (const StoreError& error) {
    if (error.failure() != StoreFailure::NoRanges) throw;
    return false;
  }
}

// In one request: each attempt begins at the start. It is repeated until the timeout is over since
// there were bytes that no earlier attempt had.
void ObjectCache::fetch_whole(ObjectStore& store, const ObjectInfo& object, int file) {
  uint64_t most = 0;
  Clock::time_point progress_at;
  const auto attempt = [&] {
    uint64_t done = 0;
    store.read_whole(object, [&](std::span<const uint8_t> bytes) {
      if (stop_.stop_requested()) throw ended_error();
      retries_.wait_for_bytes(bytes.size());
      const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (!write_all_at(file, text, done))
        throw errno_error(printable(object.key, 400) + ": cannot be written to the cache");
      done += bytes.size();
      if (done <= most) return;
      most = done;
      progress_at = Clock::now();
    });
  };
  retries_.run(attempt, &progress_at);
  counters_.bytes += object.size;
}

// Calls act(), which reads bytes of this version.
template <class Act>
void ObjectCache::read_version(const StorePath& place, const ObjectInfo& object, const Act& act) {
  const auto verify = [&] {
    if (!store_of(place).commit().empty()) return;  // cannot change
    const auto now = request_info(place);
    if (now.tag != object.tag || now.size != object.size || now.modified != object.modified)
      throw replaced_error(place);
  };
  try {
    act();
  } catch (const StoreError& error) {
    if (error.failure() != StoreFailure::Temporary) verify();  // which would be the reason
    throw;
  }
  verify();
}

void ObjectCache::fetch(const StorePath& place, const ObjectInfo& object, int64_t ahead, int file) {
  read_version(place, object, [&] {
    if (!object.has_ranges || !fetch_pieces(place, object, ahead, file))
      fetch_whole(store_of(place), object, file);
  });
}

// False: as fetch_pieces().
bool ObjectCache::read_range(const StorePath& place, const ObjectInfo& object, int64_t offset,
                             std::span<uint8_t> out) {
  try {
    read_version(place, object, [&] {
      const auto bytes = read_piece(store_of(place), object, offset, std::ssize(out));
      std::ranges::copy(bytes, out.begin());
    });
    return true;
  } catch (const StoreError& error) {
    if (error.failure() != StoreFailure::NoRanges) throw;
    return false;
  }
}

void ObjectCache::fetch_ahead(std::vector<StorePath> places) {
  std::set<std::string> paths;
  for (const auto& place : places) paths.insert(place.path().string());
  const MutexLock lock(mutex_);
  std::erase_if(ahead_, [&](const auto& place) { return paths.contains(place.path().string()); });
  ahead_.insert(ahead_.begin(), std::make_move_iterator(places.begin()),
                std::make_move_iterator(places.end()));
  const auto wanted = std::min<size_t>(ahead_.size(), static_cast<size_t>(options_.connections));
  while (threads_.size() < wanted) threads_.emplace_back([this] { run_ahead(stop_.get_token()); });
  changed_.notify_all();
}

void ObjectCache::run_ahead(const std::stop_token& stop) {
  for (;;) {
    StorePath place;
    int64_t number = 0;
    {
      MutexLock lock(mutex_);
      changed_.wait(lock.native(), stop, [this]() REQUIRES(mutex_) { return !ahead_.empty(); });
      if (stop.stop_requested()) return;
      place = ahead_.front();
      ahead_.pop_front();
      number = ++num_ahead_;
    }
    try {
      const auto object = expected(place);
      if (!claim_ahead(place.path().string(), object.size, stop)) continue;
      bool was_there = true;
      wait_or_fetch(place, object, number, was_there);
    } catch (const std::exception&) {
      note_opened(place.path().string());  // open() reports the error
    }
  }
}

// Waits until a copy of this size can be fetched ahead: those that are not opened yet must not be
// evicted, also not by other processes, which fetch other objects. False: it is not needed any more.
bool ObjectCache::claim_ahead(const std::string& path, int64_t bytes, const std::stop_token& stop) {
  const auto most = options_.max_bytes / 2 / options_.processes;
  MutexLock lock(mutex_);
  changed_.wait(lock.native(), stop, [&]() REQUIRES(mutex_) {
    return opened_.contains(path) || unopened_bytes_ + bytes <= most;
  });
  if (stop.stop_requested() || opened_.contains(path)) return false;
  if (unopened_.emplace(path, bytes).second) unopened_bytes_ += bytes;
  return true;
}

void ObjectCache::note_opened(const std::string& path) {
  const MutexLock lock(mutex_);
  opened_.insert(path);
  if (const auto ahead = unopened_.find(path); ahead != unopened_.end()) {
    unopened_bytes_ -= ahead->second;
    unopened_.erase(ahead);
  }
  changed_.notify_all();
}

std::map<std::string, std::string> ObjectCache::commits() const {
  std::map<std::string, std::string> commits;
  const MutexLock lock(mutex_);
  for (const auto& [root, store] : stores_)
    if (auto commit = store->commit(); !commit.empty()) commits[root] = std::move(commit);
  return commits;
}

StoreStats ObjectCache::stats() const {
  return {.bytes = counters_.bytes,
          .requests = retries_.num_requests() + reads_.num_hedged(),
          .retries = retries_.num_retries(),
          .hedged = reads_.num_hedged(),
          .hits = counters_.hits,
          .wait_s = static_cast<double>(counters_.wait_us) * 1e-6};
}

}  // namespace lockstep::formats
