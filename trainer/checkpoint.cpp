#include "trainer/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "core/crc32c.h"
#include "core/durable_file.h"
#include "core/error.h"
#include "trainer/safetensors.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Checksums = std::map<std::string, uint32_t>;

constexpr int kFormat = 3;
constexpr int kOldestFormat = 2;  // had no early_stop, evaluation_is_due and gradient_order
constexpr const char* kTemporary = ".tmp-";
constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kEma = "ema.safetensors";
constexpr const char* kRng = "rng.safetensors";
constexpr const char* kManifest = "manifest.json";

fs::path directory_of(const fs::path& checkpoints, int64_t step) {
  return checkpoints / std::to_string(step);
}

uint32_t crc_of(const Json& json) {
  const auto text = json.dump();
  return crc32c(text.data(), text.size());
}

// Removes what an interrupted save left. Best effort: it is not in anybody's way.
void remove_leftovers(const fs::path& checkpoints) {
  std::error_code error;
  for (fs::directory_iterator it(checkpoints, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (it->path().filename().string().starts_with(kTemporary)) fs::remove_all(it->path(), ignored);
  }
}

void write_files(const fs::path& directory, const Checkpoint& checkpoint) {
  Json content = {{"format", kFormat}};
  content.update(describe_head(checkpoint.head));
  content["tensors"] = {
      {kModel, write_safetensors(directory / kModel, checkpoint.model)},
      {kOptimizer, write_safetensors(directory / kOptimizer, checkpoint.optimizer)},
      {kRng, write_safetensors(directory / kRng, checkpoint.rng)}};
  if (!checkpoint.ema.empty())
    content["tensors"][kEma] = write_safetensors(directory / kEma, checkpoint.ema);
  const Json manifest = {{"crc32c", crc_of(content)}, {"content", content}};
  write_file_durably(directory / kManifest, manifest.dump(1) + "\n");
}

// Gives the finished directory its name. An older one of the same step is exchanged for it in one
// step.
void publish(const fs::path& temporary, const fs::path& final_path) {
  sync_directory(temporary);
  std::error_code ignored;
  const auto flags = fs::exists(final_path, ignored) ? RENAME_EXCHANGE : RENAME_NOREPLACE;
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, final_path.c_str(), flags) != 0)
    throw errno_error(
        fmt::format("cannot rename {} to {}", temporary.string(), final_path.string()));
  if (flags == RENAME_EXCHANGE) fs::remove_all(temporary, ignored);
  sync_directory(final_path.parent_path());
}

Json read_manifest(const fs::path& path) {
  const auto json = Json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("content") || !json.contains("crc32c") ||
      json["crc32c"] != crc_of(json["content"]))
    throw environment_error(fmt::format("{}: damaged (its checksum differs)", path.string()));
  const auto& content = json["content"];
  const auto format = content.value("format", 0);
  if (format < kOldestFormat || format > kFormat)
    throw environment_error(fmt::format(
        "{}: written by another version of Lockstep (format {}; this one reads {} to {})",
        path.string(), format, kOldestFormat, kFormat));
  return content;
}

}  // namespace

void write_checkpoint(const fs::path& checkpoints, const Checkpoint& checkpoint) {
  make_directories(checkpoints);
  remove_leftovers(checkpoints);
  const auto step = checkpoint.head.position.step;
  const auto temporary = checkpoints / fmt::format("{}{}-{}", kTemporary, step, ::getpid());
  try {
    make_directories(temporary);
    write_files(temporary, checkpoint);
    publish(temporary, directory_of(checkpoints, step));
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
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
  std::sort(steps.begin(), steps.end());
  return steps;
}

Checkpoint read_checkpoint(const fs::path& checkpoints, int64_t step) {
  const auto directory = directory_of(checkpoints, step);
  const auto content = read_manifest(directory / kManifest);
  const auto read = [&](const char* file) {
    return read_safetensors(directory / file, content.at("tensors").at(file).get<Checksums>());
  };
  Checkpoint checkpoint;
  checkpoint.head = read_head(content);
  checkpoint.model = read(kModel);
  checkpoint.optimizer = read(kOptimizer);
  checkpoint.rng = read(kRng);
  if (content.at("tensors").contains(kEma)) checkpoint.ema = read(kEma);
  return checkpoint;
}

std::optional<Checkpoint> read_last_good_checkpoint(const fs::path& checkpoints,
                                                    std::vector<std::string>& rejected) {
  auto steps = list_checkpoints(checkpoints);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      return read_checkpoint(checkpoints, *step);
    } catch (const std::exception& error) {  // JSON's too: of a manifest that lacks something
      rejected.push_back(fmt::format("checkpoint {} cannot be used: {}", *step, error.what()));
    }
  }
  if (steps.empty()) return std::nullopt;
  throw environment_error(
      fmt::format("none of the {} checkpoints in {} can be used; the latest: {}", steps.size(),
                  checkpoints.string(), rejected.front()));
}

void prune_checkpoints(const fs::path& checkpoints, int64_t newest, int64_t keep_last) {
  const auto steps = list_checkpoints(checkpoints);
  const auto end = std::ranges::upper_bound(steps, newest) - steps.begin();
  for (std::ptrdiff_t i = 0; i < std::ssize(steps); ++i) {
    if (i < end && i + keep_last >= end) continue;
    const auto step = steps[static_cast<size_t>(i)];
    // Renamed first, so that a kill in the middle leaves no half of a checkpoint under a step's
    // name.
    const auto doomed = checkpoints / fmt::format("{}old-{}", kTemporary, step);
    std::error_code error;
    fs::rename(directory_of(checkpoints, step), doomed, error);
    if (!error) fs::remove_all(doomed, error);
    if (error)
      throw environment_error(fmt::format("cannot remove the old checkpoint {}: {}",
                                          directory_of(checkpoints, step).string(),
                                          error.message()));
  }
}

}  // namespace lockstep
