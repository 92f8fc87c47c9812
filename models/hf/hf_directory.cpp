#include "models/hf/hf_directory.h"

#include <fmt/format.h>

#include <array>
#include <set>

#include "core/printable.h"
#include "core/system/durable_file.h"
#include "formats/mapped_file.h"
#include "formats/safetensors_header.h"
#include "formats/safetensors_index.h"
#include "lockstep/error.h"

namespace lockstep::models {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxConfigBytes = 1u << 20;
constexpr size_t kMaxIndexBytes = 256u << 20;
constexpr std::array kWeightFiles = {"model.safetensors", "model.safetensors.index.json"};
constexpr std::array kCompanions = {"config.json",
                                    "generation_config.json",
                                    "tokenizer.json",
                                    "tokenizer_config.json",
                                    "special_tokens_map.json",
                                    "added_tokens.json",
                                    "vocab.json",
                                    "vocab.txt",
                                    "merges.txt",
                                    "tokenizer.model",
                                    "chat_template.jinja"};

std::map<std::string, std::vector<int64_t>> shapes_in_file(const fs::path& file) {
  const formats::MappedFile mapped(file);
  const auto entries = mapped.read([&](std::span<const uint8_t> bytes) {
    return formats::parse_safetensors(bytes, mapped.name(), ErrorKind::Config);
  });
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& entry : entries) shapes[entry.name] = entry.shape;
  return shapes;
}

}  // namespace

HfDirectory::ConfigFile HfDirectory::config() const {
  const auto file = path / "config.json";
  std::error_code ignored;
  if (!fs::is_directory(path, ignored))
    throw config_error(
        fmt::format("model {}: {} is not a directory: expected one written by save_pretrained()",
                    model, printable(path.string(), 400)));
  if (!fs::exists(file, ignored))
    throw config_error(
        fmt::format("model {}: {} has no config.json: expected a directory written by "
                    "save_pretrained()",
                    model, printable(path.string(), 400)));
  return {read_file(file, kMaxConfigBytes), printable(file.string(), 400)};
}

fs::path HfDirectory::weights() const {
  std::error_code ignored;
  for (const auto* name : kWeightFiles)
    if (fs::exists(path / name, ignored)) return path / name;
  throw config_error(
      fmt::format("model {}: {} has neither {} nor {}; other formats of weights are not "
                  "supported: convert them "
                  "with save_pretrained(), or set weights: false to start with random ones",
                  model, printable(path.string(), 400), kWeightFiles[0], kWeightFiles[1]));
}

std::vector<fs::path> HfDirectory::companions() const {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto* name : kCompanions)
    if (fs::is_regular_file(path / name, ignored)) files.push_back(path / name);
  return files;
}

std::map<std::string, std::vector<int64_t>> stored_shapes(const fs::path& weights) {
  if (!weights.string().ends_with(formats::kSafetensorsIndexEnding)) return shapes_in_file(weights);
  std::set<std::string> files;
  try {
    const auto text = read_file(weights, kMaxIndexBytes);
    for (const auto& [tensor, file] :
         formats::parse_safetensors_index(text, printable(weights.string(), 400)))
      files.insert(file);
  } catch (const Error& error) {
    throw config_error(error.what());
  }
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& file : files) shapes.merge(shapes_in_file(weights.parent_path() / file));
  return shapes;
}

}  // namespace lockstep::models
