#include "formats/safetensors_index.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/printable.h"
#include "formats/path_list.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

constexpr size_t kMaxNameLength = 200;  // in a message

bool is_file_name(const std::string& file) {
  return is_plain_name(file) && file.size() < 256 && file.front() != '.';
}

}  // namespace

std::string make_safetensors_index(const std::map<std::string, std::string>& files,
                                   size_t total_bytes) {
  const nlohmann::ordered_json json = {{"metadata", {{"total_size", total_bytes}}},
                                       {"weight_map", files}};
  return json.dump(2) + "\n";
}

std::map<std::string, std::string> parse_safetensors_index(const std::string& text,
                                                           const std::string& name) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    throw environment_error(
        fmt::format("{}: not an index of safetensors files (\"weight_map\" is missing)", name));
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    if (!file.is_string() || !is_file_name(file.get<std::string>()))
      throw environment_error(fmt::format("{}: tensor '{}': expected a plain file name, got {}",
                                          name, printable(tensor, kMaxNameLength),
                                          printable(file.dump(-1, ' ', true), kMaxNameLength)));
    files.emplace(tensor, file.get<std::string>());
  }
  return files;
}

}  // namespace lockstep::formats
