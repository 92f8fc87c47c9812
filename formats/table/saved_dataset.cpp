#include "formats/table/saved_dataset.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "core/printable.h"
#include "formats/mapped_file.h"
#include "formats/path_list.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

namespace fs = std::filesystem;

constexpr const char* kState = "state.json";
constexpr const char* kSplits = "dataset_dict.json";
constexpr const char* kInfo = "dataset_info.json";

std::string text_of(const fs::path& path) {
  const MappedFile file(path);
  return file.read([](std::span<const uint8_t> bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
}

Error has_splits(const fs::path& folder) {
  std::string splits, first = "train";
  const auto json = nlohmann::json::parse(text_of(folder / kSplits), nullptr, false);
  if (json.is_object() && json.contains("splits") && json["splits"].is_array())
    for (const auto& split : json["splits"]) {
      if (!split.is_string()) continue;
      const auto name = printable(split.get<std::string>());
      if (splits.empty()) first = name;
      splits += (splits.empty() ? "" : ", ") + name;
    }
  const auto name = printable(folder.string(), 400);
  return config_error(fmt::format(
      "{}: it is a DatasetDict with the splits {}: set path to one of them, such as {}", name,
      splits.empty() ? "in its folders" : splits, printable((folder / first).string(), 400)));
}

// Results of map() are in the same folder.
bool is_shard(const std::string& name) {
  return name.ends_with(".arrow") && !name.starts_with("cache-");
}

// The shards of a directory with state.json; empty for other directories and files.
std::vector<PartitionFile> saved_dataset_files(const fs::path& folder) {
  if (!is_folder(folder)) return {};
  const auto is_used = [](const fs::path& file) {
    const auto name = file.filename();
    return name == kState || name == kSplits || name == kInfo || is_shard(name.string());
  };
  std::map<std::string, fs::path> listed;
  for (const auto& file : files_in(folder, is_used)) listed[file.filename().string()] = file;
  const auto note = [&](const std::string& name) {
    const auto found = listed.find(name);
    return found == listed.end() ? fs::path() : found->second;
  };
  if (const auto splits = note(kSplits); !splits.empty()) throw has_splits(splits.parent_path());
  const auto state = note(kState);
  if (state.empty() && note(kInfo).empty()) return {};
  if (state.empty())
    throw config_error(
        fmt::format("{}: it has no state.json: a cache of Hugging Face's datasets can mix splits "
                    "and results of map(); write the dataset with save_to_disk(), or set path to "
                    "one file",
                    printable(folder.string(), 400)));
  std::vector<PartitionFile> files;
  const auto name = printable(state.string(), 400);
  for (const auto& shard : parse_dataset_state(text_of(state), name)) {
    files.push_back({note(shard), {}});
    if (files.back().path.empty())
      throw config_error(fmt::format("{}: it names {}, which is missing", name, printable(shard)));
  }
  return files;
}

}  // namespace

std::vector<std::string> parse_dataset_state(const std::string& text, const std::string& name) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw config_error(name + ": it is not a JSON object");
  for (const auto* indices : {"_indices_files", "_indices_data_files"})
    if (const auto found = json.find(indices); found != json.end() && !found->empty())
      throw config_error(name +
                         ": its rows are selected by indices: call flatten_indices() before "
                         "save_to_disk()");
  const auto files = json.find("_data_files");
  if (files == json.end() || !files->is_array() || files->empty())
    throw config_error(name + ": it has no list _data_files");
  std::vector<std::string> names;
  for (const auto& file : *files) {
    const auto found = file.is_object() ? file.find("filename") : file.end();
    if (!file.is_object() || found == file.end() || !found->is_string() ||
        !is_plain_name(found->get<std::string>()))
      throw config_error(
          fmt::format("{}: file {} in _data_files has no plain file name", name, names.size() + 1));
    names.push_back(found->get<std::string>());
  }
  return names;
}

std::vector<PartitionFile> arrow_files(const std::string& path) {
  auto files = saved_dataset_files(path);
  return files.empty() ? partition_files(path, {".arrow", ".feather", ".ipc"}) : files;
}

}  // namespace lockstep::formats
