#include "tracking/sinks/mlflow/mlflow_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/printable.h"
#include "core/system/crc32c.h"
#include "tracking/log/system_metric.h"

namespace lockstep::tracking {
namespace {

constexpr size_t kMlflowNameBytes = 250;
constexpr size_t kMlflowChecksumBytes = 9;
constexpr std::string_view kMlflowCut = " ... (cut)";

struct MlflowSystemName {
  std::string_view ours, theirs;
  double factor = 1;
};
constexpr double kMlflowMegabytes = 1e-6;

// Names after "system/" and the optional node.
constexpr MlflowSystemName kMlflowSystemNames[] = {
    {"cpu_percent", "cpu_utilization_percentage"},
    {"memory.used_bytes", "system_memory_usage_megabytes", kMlflowMegabytes},
    {"memory.percent", "system_memory_usage_percentage"},
    {"disk.used_bytes", "disk_usage_megabytes", kMlflowMegabytes},
    {"disk.free_bytes", "disk_available_megabytes", kMlflowMegabytes},
    {"disk.percent", "disk_usage_percentage"},
};

// Names after our "gpu.0." and MLflow's "gpu_0_".
constexpr MlflowSystemName kMlflowGpuNames[] = {
    {"utilization", "utilization_percentage"},
    {"memory_used_bytes", "memory_usage_megabytes", kMlflowMegabytes},
    {"power_watts", "power_usage_watts"},
};

template <size_t size>
const MlflowSystemName* mlflow_equivalent(const MlflowSystemName (&names)[size],
                                          std::string_view ours) {
  const auto* const found = std::ranges::find(names, ours, &MlflowSystemName::ours);
  return found == std::end(names) ? nullptr : found;
}

bool is_mlflow_plain(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-. :/").find(static_cast<char>(c)) != std::string_view::npos;
}

// Replaces parts with a special meaning in paths.
std::string mlflow_path_part(std::string_view part) {
  if (part.empty()) return "_";
  if (part == "." || part == "..") return std::string(part.size(), '_');
  return std::string(part);
}

std::string mlflow_with_checksum(const std::string& name, std::string_view original) {
  const auto kept = name.substr(0, kMlflowNameBytes - kMlflowChecksumBytes);
  return fmt::format("{}-{:08x}", kept, crc32c(original.data(), original.size()));
}

bool holds_maps(const Json& list) {
  return std::ranges::any_of(list, [](const Json& item) { return item.is_object(); });
}

void flatten_params(const Json& value, const std::string& name,
                    std::vector<std::pair<std::string, std::string>>& params) {
  const auto below = [&](const std::string& key) { return name.empty() ? key : name + "." + key; };
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) flatten_params(item, below(key), params);
  } else if (value.is_array() && holds_maps(value)) {
    for (size_t i = 0; i < value.size(); ++i)
      flatten_params(value[i], below(std::to_string(i)), params);
  } else {
    const auto text = value.is_string()
                          ? value.get<std::string>()
                          : value.dump(-1, ' ', false, Json::error_handler_t::replace);
    params.emplace_back(mlflow_name(name), mlflow_value(text, kMlflowParamBytes));
  }
}

}  // namespace

std::string mlflow_name(std::string_view name) {
  std::string plain;
  for (const unsigned char c : name) {
    const bool is_inside_character = (c & 0xC0) == 0x80;
    if (!is_inside_character) plain += is_mlflow_plain(c) ? static_cast<char>(c) : '_';
  }
  std::string path;
  for (size_t begin = 0; begin <= plain.size();) {
    const auto end = std::min(plain.find('/', begin), plain.size());
    path += (begin > 0 ? "/" : "") +
            mlflow_path_part(std::string_view(plain).substr(begin, end - begin));
    begin = end + 1;
  }
  return path.size() <= kMlflowNameBytes ? path : mlflow_with_checksum(path, name);
}

MlflowMetricNames::MlflowMetricNames(const Json& state) {
  if (!state.is_object()) return;
  for (const auto& [theirs, ours] : state.items()) {
    names_[ours.get<std::string>()] = theirs;
    owners_[theirs] = ours.get<std::string>();
  }
}

const std::string& MlflowMetricNames::of(std::string_view name) {
  if (const auto known = names_.find(name); known != names_.end()) return known->second;
  auto theirs = mlflow_name(name);
  if (owners_.contains(theirs)) theirs = mlflow_with_checksum(theirs, name);
  owners_[theirs] = name;
  return names_.emplace(name, theirs).first->second;
}

Json MlflowMetricNames::state() const {
  auto changed = Json::object();
  for (const auto& [ours, theirs] : names_)
    if (ours != theirs) changed[theirs] = ours;
  return changed;
}

std::pair<std::string, double> mlflow_system_metric(std::string_view name, double value) {
  const std::pair<std::string, double> unchanged{name, value};
  if (!name.starts_with(kSystemPrefix)) return unchanged;
  auto rest = name.substr(kSystemPrefix.size());
  std::string_view node;
  if (rest.starts_with("node-") && rest.find('/') != std::string_view::npos) {
    node = rest.substr(0, rest.find('/') + 1);
    rest.remove_prefix(node.size());
  }
  if (const auto* found = mlflow_equivalent(kMlflowSystemNames, rest))
    return {fmt::format("{}{}{}", kSystemPrefix, node, found->theirs), value * found->factor};
  constexpr std::string_view kGpu = "gpu.";
  if (!rest.starts_with(kGpu)) return unchanged;
  const auto dot = rest.find('.', kGpu.size());
  if (dot == std::string_view::npos) return unchanged;
  const auto index = rest.substr(kGpu.size(), dot - kGpu.size());
  const auto* found = mlflow_equivalent(kMlflowGpuNames, rest.substr(dot + 1));
  if (!found) return unchanged;
  return {fmt::format("{}{}gpu_{}_{}", kSystemPrefix, node, index, found->theirs),
          value * found->factor};
}

std::string mlflow_value(std::string_view text, size_t max_bytes) {
  std::string whole;
  for (auto rest = text; !rest.empty();) {
    const auto good = std::min(find_invalid_utf8(rest), rest.size());
    whole += rest.substr(0, good);
    if (good < rest.size()) whole += "\uFFFD";
    rest.remove_prefix(std::min(good + 1, rest.size()));
  }
  std::erase(whole, '\0');  // rejected by some databases of MLflow
  if (whole.size() <= max_bytes) return whole;
  auto end = max_bytes - kMlflowCut.size();
  while (end > 0 && (static_cast<unsigned char>(whole[end]) & 0xC0) == 0x80) --end;
  return whole.substr(0, end).append(kMlflowCut);
}

std::vector<std::pair<std::string, std::string>> mlflow_params(const Json& config) {
  std::vector<std::pair<std::string, std::string>> params;
  if (!config.is_object()) return params;
  for (const auto& [section, value] : config.items())
    if (section != "tracking") flatten_params(value, section, params);
  return params;
}

}  // namespace lockstep::tracking
