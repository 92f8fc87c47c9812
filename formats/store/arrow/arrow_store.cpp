#include "formats/store/arrow/arrow_store.h"

#include <arrow/util/future.h>
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <exception>

#include "core/printable.h"

namespace lockstep::formats {
namespace {

constexpr size_t kPartBytes = size_t{10} << 20;

}  // namespace

StoreError known_error(std::span<const KnownFailure> failures, const std::string& place,
                       std::string_view message, std::string_view essence) {
  const auto detail = printable(std::string(essence), 200);
  const auto known = std::ranges::find_if(
      failures, [&](const auto& failure) { return message.find(failure.text) != message.npos; });
  if (known == failures.end())
    return {StoreFailure::Temporary, ErrorKind::Environment, fmt::format("{}: {}", place, detail)};
  const bool is_plain =
      known->failure == StoreFailure::NoBucket || known->failure == StoreFailure::NoKey;
  return {
      known->failure, known->kind,
      fmt::format("{}: {}{}", place, known->remedy, is_plain ? "" : fmt::format(" ({})", detail))};
}

std::string_view text_between(std::string_view text, std::string_view begin, std::string_view end,
                              std::string_view otherwise) {
  const auto found = text.find(begin);
  if (found == text.npos) return otherwise;
  text.remove_prefix(found + begin.size());
  return text.substr(0, text.find(end));
}

int64_t seconds_of_iso_time(const std::string& text) {
  struct tm parts {};
  return ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) ? ::timegm(&parts) : 0;
}

// The clients can throw exceptions too, e.g. those that get tokens.
template <class Call>
auto ArrowStore::value(const std::string& key, const Call& call) const {
  auto result = [&]() -> decltype(call()) {
    try {
      return call();
    } catch (const std::exception& error) {
      return arrow::Status::UnknownError(error.what());
    }
  }();
  if (!result.ok()) throw error_at(key, result.status().ToString());
  return std::move(result).ValueUnsafe();
}

template <class Call>
void ArrowStore::verify(const std::string& key, const Call& call) const {
  value(key, [&]() -> arrow::Result<bool> {
    ARROW_RETURN_NOT_OK(call());
    return true;
  });
}

// What is missing with an empty key is the bucket.
StoreError ArrowStore::error_at(const std::string& key, const std::string& message) const {
  const auto error = error_of(name_of(key), message);
  if (!key.empty() || error.failure() != StoreFailure::NoKey) return error;
  return {StoreFailure::NoBucket, ErrorKind::Config, name_of("") + ": no such bucket"};
}

std::string ArrowStore::name_of(const std::string& key) const {
  return printable(key.empty() ? shown_ : shown_ + "/" + key, 400);
}

std::string ArrowStore::path_of(const std::string& key) const {
  return key.empty() ? bucket_ : bucket_ + "/" + key;
}

ObjectInfo ArrowStore::info(const std::string& key) {
  const auto file = value(key, [&] { return files_->OpenInputFile(path_of(key)); });
  ObjectInfo info{.key = key, .size = value(key, [&] { return file->GetSize(); })};
  set_version(info, *value(key, [&] { return file->ReadMetadata(); }));
  return info;
}

arrow::fs::FileSelector ArrowStore::selector_of(const std::string& prefix) const {
  arrow::fs::FileSelector selector;
  selector.base_dir = path_of(prefix);
  selector.allow_not_found = !prefix.empty();
  return selector;
}

std::vector<ObjectInfo> ArrowStore::list(const std::string& prefix, size_t limit) {
  auto selector = selector_of(prefix);
  selector.recursive = true;
  const auto next = files_->GetFileInfoGenerator(selector);
  std::vector<ObjectInfo> found;
  for (;;) {
    const auto batch = value(prefix, [&] { return next().result(); });
    if (batch.empty()) return found;
    for (const auto& file : batch) {
      if (!file.IsFile()) continue;
      if (found.size() == limit) return found;
      const auto modified = file.mtime().time_since_epoch();
      found.push_back(
          {.key = file.path().substr(bucket_.size() + 1),
           .size = file.size(),
           .modified = std::chrono::duration_cast<std::chrono::seconds>(modified).count()});
    }
  }
}

void ArrowStore::verify_listing(const std::string& prefix) {
  const auto next = files_->GetFileInfoGenerator(selector_of(prefix));
  value(prefix, [&] { return next().result(); });
}

void ArrowStore::read(const ObjectInfo& object, int64_t offset, std::span<uint8_t> out) {
  arrow::fs::FileInfo known(path_of(object.key), arrow::fs::FileType::File);
  known.set_size(object.size);
  const auto file = value(object.key, [&] { return files_->OpenInputFile(known); });
  const auto size = static_cast<int64_t>(out.size());
  const auto count = value(object.key, [&] { return file->ReadAt(offset, size, out.data()); });
  if (count == size) return;
  if (info(object.key).size != object.size)
    throw StoreError(StoreFailure::Other, ErrorKind::Environment,
                     name_of(object.key) + ": " + kObjectChanged);
  throw StoreError(StoreFailure::Temporary, ErrorKind::Environment,
                   fmt::format("{}: {} bytes instead of {} from byte {} on", name_of(object.key),
                               count, size, offset));
}

void ArrowStore::write(const std::string& key, const NextBytes& next) {
  std::vector<uint8_t> buffer(kPartBytes);
  std::shared_ptr<arrow::io::OutputStream> file;
  try {
    file = value(key, [&] { return writable_files_->OpenOutputStream(path_of(key)); });
    while (const auto count = next(buffer))
      verify(key, [&] { return file->Write(buffer.data(), static_cast<int64_t>(count)); });
    verify(key, [&] { return file->Close(); });
  } catch (const StoreError& error) {
    if (file) abort(std::move(file));  // the destructor would complete the object
    if (error.failure() != StoreFailure::NoKey) throw;
    verify_listing("");  // throws if the bucket is missing
    throw StoreError(StoreFailure::Temporary, ErrorKind::Environment,
                     name_of(key) + ": the server has lost the upload");
  } catch (...) {
    if (file) abort(std::move(file));
    throw;
  }
}

void ArrowStore::remove(const std::string& key) {
  try {
    verify(key, [&] { return writable_files_->DeleteFile(path_of(key)); });
  } catch (const StoreError& error) {
    if (error.failure() != StoreFailure::NoKey) throw;
  }
}

void ArrowStore::remove_all(const std::string& prefix) {
  try {
    verify(prefix, [&] { return writable_files_->DeleteDir(path_of(prefix)); });
  } catch (const StoreError& error) {
    if (error.failure() != StoreFailure::NoKey) throw;
  }
}

}  // namespace lockstep::formats
