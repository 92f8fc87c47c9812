#include "formats/tar/tar_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/printable.h"
#include "formats/mapped_file.h"
#include "formats/path_list.h"
#include "formats/store/process_cache.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWriteAgain = "write it again: lockstep-data index";
constexpr int64_t kMaxTarSamples = 1'000'000'000;

// A whole number from 0 on that `key` names; nullopt: there is none.
std::optional<int64_t> count_in(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned() ||
      found->get<uint64_t>() > uint64_t{INT64_MAX})
    return std::nullopt;
  return found->get<int64_t>();
}

// The last part of a path or URL; empty: there is none.
std::string file_name_in(const nlohmann::json& shard) {
  const auto found = shard.find("url");
  if (found == shard.end() || !found->is_string()) return {};
  auto url = found->get<std::string>();
  url = url.substr(url.find_last_of('/') + 1);
  return is_plain_name(url) ? url : std::string();
}

bool exists_index(const fs::path& path) {
  std::error_code error;
  if (!has_scheme(path)) return fs::exists(path, error);
  try {
    return object_cache().is_object(parse_store_path(path));
  } catch (const StoreError& denied) {
    // A server that lists nothing can deny access to a file that it does not have.
    if (denied.kind() != ErrorKind::Config) throw;
    return false;
  }
}

void verify_names(const TarIndex& index, const std::vector<fs::path>& files, bool are_all,
                  const std::string& name) {
  std::set<std::string> names;
  for (const auto& file : files) {
    const auto shard = file.filename().string();
    if (!index.contains(shard))
      throw config_error(
          fmt::format("{}: it does not name {}: {}", name, printable(shard), kWriteAgain));
    names.insert(shard);
  }
  if (!are_all) return;
  for (const auto& [shard, _] : index)
    if (!names.contains(shard))
      throw config_error(fmt::format("{}: it names {}, which is missing; if it was removed, {}",
                                     name, printable(shard), kWriteAgain));
}

}  // namespace

std::optional<TarIndex> parse_tar_index(const std::string& text, const std::string& name) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  const auto shards = json.find("shardlist");
  if (shards == json.end() || !shards->is_array()) return std::nullopt;
  TarIndex index;
  for (const auto& shard : *shards) {
    const auto where = [&] { return fmt::format("{}: shard {}", name, index.size() + 1); };
    if (!shard.is_object()) throw config_error(where() + " is not an object");
    const auto file = file_name_in(shard);
    if (file.empty()) throw config_error(where() + " has no 'url' with the name of its file");
    const auto samples = count_in(shard, "nsamples");
    if (!samples || *samples > kMaxTarSamples)
      throw config_error(fmt::format("{}, {}, has no 'nsamples', its number of samples", where(),
                                     printable(file)));
    // A shard with no samples would not be opened, so that a wrong number would not be noticed.
    if (*samples == 0)
      throw config_error(
          fmt::format("{}, {}, has 'nsamples' 0: a tar without samples is not "
                      "usable: {}",
                      where(), printable(file), kWriteAgain));
    if (!index.emplace(file, TarShard{*samples, count_in(shard, "filesize").value_or(0)}).second)
      throw config_error(fmt::format("{}: it names {} twice", name, printable(file)));
  }
  return index;
}

std::string tar_index_text(const TarIndex& index) {
  auto shards = nlohmann::json::array();
  for (const auto& [name, shard] : index)
    shards.push_back({{"url", name}, {"nsamples", shard.samples}, {"filesize", shard.bytes}});
  const nlohmann::json json = {
      {"__kind__", "wids-shard-index-v1"}, {"wids_version", 1}, {"shardlist", shards}};
  return json.dump(1) + "\n";
}

IndexedShards indexed_shards(const std::vector<fs::path>& files, bool are_all) {
  const auto is_elsewhere = [&](const fs::path& file) {
    return file.parent_path() != files[0].parent_path();
  };
  if (files.size() < 2 || std::ranges::any_of(files, is_elsewhere)) return {};
  const auto path = files[0].parent_path() / kTarIndexName;
  if (!exists_index(path)) return {};
  const MappedFile file(path);
  IndexedShards found{.shards = {}, .index = file.name()};
  const auto index = file.read([&](std::span<const uint8_t> bytes) {
    return parse_tar_index({bytes.begin(), bytes.end()}, file.name());
  });
  found.is_other_file = !index;
  if (!index) return found;
  verify_names(*index, files, are_all, file.name());
  for (const auto& shard : files) found.shards.push_back(index->at(shard.filename().string()));
  return found;
}

}  // namespace lockstep::formats
