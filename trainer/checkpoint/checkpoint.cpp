#include "trainer/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "core/system/crc32c.h"
#include "core/system/durable_file.h"
#include "core/system/new_name.h"
#include "formats/safetensors_index.h"
#include "lockstep/error.h"
#include "trainer/checkpoint/safetensors.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Checksums = std::map<std::string, uint32_t>;

constexpr int kFormat = 5;
// 2 had no shares, early_stop, evaluation_is_due, gradient_order; 4 had no base.
constexpr int kOldestFormat = 2;
constexpr const char* kManifest = "manifest.json";

fs::path directory_of(const fs::path& checkpoints, int64_t step) {
  return checkpoints / std::to_string(step);
}

fs::path temporary_of(const fs::path& checkpoints, int64_t step, const std::string& attempt) {
  return checkpoints / fmt::format("{}{}-{}", kTemporaryPrefix, step, attempt);
}

// The name of share `index`'s file.
std::string file_name(const TensorFile& file, int index, int count) {
  if (!file.is_shared || count == 1) return fmt::format("{}.safetensors", file.name);
  return fmt::format("{}-{:05}-of-{:05}.safetensors", file.name, index + 1, count);
}

int num_files(const TensorFile& file, int count) { return file.is_shared ? count : 1; }

// Whether the checkpoint has these tensors.
bool is_in(const CheckpointHead& head, const TensorFile& file) {
  return file.tensors != &Checkpoint::ema || head.ema_updates > 0;
}

uint32_t crc_of(const Json& json) {
  const auto text = json.dump();
  return crc32c(text.data(), text.size());
}

// Removes leftovers of interrupted saves. Best effort: they are harmless.
void remove_leftovers(const fs::path& checkpoints, const std::string& attempt) {
  std::error_code error;
  for (fs::directory_iterator it(checkpoints, error), end; !error && it != end;
       it.increment(error)) {
    const auto name = it->path().filename().string();
    std::error_code ignored;
    if (name.starts_with(kTemporaryPrefix) && !name.ends_with(attempt))
      fs::remove_all(it->path(), ignored);
  }
}

// For other programs: maps tensors to files. `files`: the results of write_share(), of all shares.
void write_index(const fs::path& directory, const TensorFile& file, const Json& files, int count) {
  std::map<std::string, std::string> file_of;
  size_t bytes = 0;
  for (int i = 0; i < count; ++i) {
    const auto name = file_name(file, i, count);
    const auto& written = files.at(name);
    bytes += written.at("bytes").get<size_t>();
    for (const auto& item : written.at("checksums").items()) file_of[item.key()] = name;
  }
  write_file_durably(directory / fmt::format("{}{}", file.name, formats::kSafetensorsIndexEnding),
                     formats::make_safetensors_index(file_of, bytes));
}

// Exchanges their names. Atomic, except on network file systems, which cannot exchange.
void exchange(const fs::path& temporary, const fs::path& final_path) {
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, final_path.c_str(), RENAME_EXCHANGE) == 0)
    return;
  if (errno != EINVAL)
    throw errno_error(
        fmt::format("cannot rename {} to {}", temporary.string(), final_path.string()));
  const auto name = fmt::format("{}old-{}", kTemporaryPrefix, temporary.filename().string());
  const auto old = temporary.parent_path() / name;
  fs::rename(final_path, old);
  std::error_code error, ignored;
  fs::rename(temporary, final_path, error);
  fs::rename(old, error ? final_path : temporary, ignored);
  if (error)
    throw environment_error(
        fmt::format("cannot create {}: {}", final_path.string(), error.message()));
}

// Gives the finished directory its final name, replacing an older one of the same step.
void rename_into_place(const fs::path& temporary, const fs::path& final_path) {
  sync_directory(temporary);
  std::error_code ignored;
  if (fs::exists(final_path, ignored)) {
    exchange(temporary, final_path);
    fs::remove_all(temporary, ignored);
  } else {
    rename_to_new(temporary, final_path);
  }
  sync_directory(final_path.parent_path());
}

Json read_manifest(const fs::path& path) {
  const auto json = Json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("content") || !json.contains("crc32c") ||
      json["crc32c"] != crc_of(json["content"]))
    throw environment_error(fmt::format("{}: corrupt (its checksum differs)", path.string()));
  const auto& content = json["content"];
  const auto format = content.value("format", 0);
  if (format < kOldestFormat || format > kFormat)
    throw config_error(fmt::format(
        "{}: written by {} version of Lockstep (checkpoint format {}; this one reads {} to {})",
        path.string(), format > kFormat ? "a later" : "an earlier", format, kOldestFormat,
        kFormat));
  return content;
}

void write_manifest(const fs::path& directory, const Json& content) {
  const Json manifest = {{"crc32c", crc_of(content)}, {"content", content}};
  write_file_durably(directory / kManifest, manifest.dump(1) + "\n");
}

// Changes the path of `base` to that of the file that is read.
NamedTensors read_moved_base(BaseWeights& base, const fs::path& elsewhere) {
  if (elsewhere.empty()) return read_base(base);
  const BaseWeights moved{.path = fs::absolute(elsewhere).string(), .checksums = base.checksums};
  try {
    auto tensors = read_base(moved);
    base = moved;
    return tensors;
  } catch (const Error&) {
    std::error_code ignored;
    if (!fs::exists(base.path, ignored)) throw;
  }
  return read_base(base);
}

}  // namespace

Json write_share(const fs::path& checkpoints, const Checkpoint& share, const ShareOptions& options,
                 const FetchListed& fetch) {
  const auto [index, count, attempt] = options;
  const auto temporary = temporary_of(checkpoints, share.head.position.step, attempt);
  try {
    make_directories(temporary);
    if (index == 0) remove_leftovers(checkpoints, attempt);
    Json files = Json::object();
    for (const auto& file : kTensorFiles) {
      if (index >= num_files(file, count) || !is_in(share.head, file)) continue;
      const auto& tensors = share.*file.tensors;
      const auto name = file_name(file, index, count);
      files[name] = {{"checksums", write_safetensors(temporary / name, tensors,
                                                     [&](const std::string& tensor) {
                                                       return fetch(file.name, tensor);
                                                     })},
                     {"bytes", bytes_of(tensors)}};
    }
    return files;
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
}

void commit_checkpoint(const fs::path& checkpoints, const CheckpointHead& head,
                       const std::vector<Json>& written, const ShareOptions& options,
                       const ExportedFiles& exported) {
  const auto temporary = temporary_of(checkpoints, head.position.step, options.attempt);
  try {
    Json content = {{"format", kFormat}, {"shares", options.count}};
    content.update(describe_head(head));
    Json files = Json::object();
    for (const auto& share : written) files.update(share);
    for (const auto& item : files.items())
      content["tensors"][item.key()] = item.value().at("checksums");
    for (const auto& file : kTensorFiles)
      if (const auto count = num_files(file, options.count); count > 1 && is_in(head, file))
        write_index(temporary, file, files, count);
    write_exported_files(temporary, exported, files);
    write_manifest(temporary, content);
    rename_into_place(temporary, directory_of(checkpoints, head.position.step));
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
}

void add_evaluation(const fs::path& checkpoints, const CheckpointHead& head) {
  const auto directory = directory_of(checkpoints, head.position.step);
  auto content = read_manifest(directory / kManifest);
  const auto added = describe_head(head);
  for (const char* key : {"early_stop", "evaluation_is_due", "evaluation"})
    content[key] = added.at(key);
  write_manifest(directory, content);
}

std::vector<int64_t> list_checkpoints(const fs::path& checkpoints) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator it(checkpoints, error), end; !error && it != end;
       it.increment(error)) {
    const auto name = it->path().filename().string();
    int64_t step = 0;
    const auto result = std::from_chars(name.data(), name.data() + name.size(), step);
    if (result.ec == std::errc{} && result.ptr == name.data() + name.size() && step >= 0)
      steps.push_back(step);
  }
  if (error && error != std::errc::no_such_file_or_directory)
    throw environment_error(
        fmt::format("cannot list {}: {}", checkpoints.string(), error.message()));
  std::sort(steps.begin(), steps.end());
  return steps;
}

Checkpoint read_checkpoint(const fs::path& checkpoints, int64_t step) {
  const auto directory = directory_of(checkpoints, step);
  const auto content = read_manifest(directory / kManifest);
  const int count = content.value("shares", 1);
  Checkpoint checkpoint{.head = read_head(content)};
  for (const auto& file : kTensorFiles)
    for (int i = 0; is_in(checkpoint.head, file) && i < num_files(file, count); ++i) {
      const auto name = file_name(file, i, count);
      auto tensors =
          read_safetensors(directory / name, content.at("tensors").at(name).get<Checksums>());
      std::ranges::move(tensors, std::back_inserter(checkpoint.*file.tensors));
    }
  return checkpoint;
}

void add_base(Checkpoint& checkpoint, const fs::path& elsewhere) {
  if (checkpoint.head.base.path.empty()) return;
  for (const auto& item : read_moved_base(checkpoint.head.base, elsewhere)) {
    checkpoint.model.push_back(item);
    if (checkpoint.head.ema_updates > 0) checkpoint.ema.push_back(item);
  }
}

std::optional<Checkpoint> read_last_good_checkpoint(const fs::path& checkpoints,
                                                    std::vector<std::string>& rejected) {
  auto steps = list_checkpoints(checkpoints);
  auto kind = ErrorKind::Config;  // if all are of other versions
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      return read_checkpoint(checkpoints, *step);
    } catch (const std::exception& error) {  // also JSON's, for a manifest with missing keys
      if (kind_of(error) != ErrorKind::Config) kind = ErrorKind::Environment;
      rejected.push_back(fmt::format("checkpoint {} cannot be used: {}", *step, error.what()));
    }
  }
  if (steps.empty()) return std::nullopt;
  throw Error(kind, fmt::format("none of the {} checkpoints in {} can be used; the latest: {}",
                                steps.size(), checkpoints.string(), rejected.front()));
}

CheckpointHead read_checkpoint_head(const fs::path& checkpoints, int64_t step) {
  return read_head(read_manifest(directory_of(checkpoints, step) / kManifest));
}

void remove_checkpoint(const fs::path& checkpoints, int64_t step) {
  const auto doomed = checkpoints / fmt::format("{}old-{}", kTemporaryPrefix, step);
  std::error_code error;
  fs::rename(directory_of(checkpoints, step), doomed, error);
  if (!error) fs::remove_all(doomed, error);
  if (error)
    throw environment_error(fmt::format("cannot remove the old checkpoint {}: {}",
                                        directory_of(checkpoints, step).string(), error.message()));
}

}  // namespace lockstep::trainer
