#include "models/package/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::models {
namespace {

constexpr int64_t kPackageFormat = 4;
constexpr int64_t kOldestFormat =
    2;  // has one segment of evaluation and no units; 3: no predict.pt2
constexpr int64_t kMaxSize = int64_t{1} << 40;
constexpr int64_t kMaxValues = 1 << 20;
constexpr double kMaxFlops = 1e18;

// An object of the manifest, and its location for messages.
class ManifestMap {
 public:
  ManifestMap(const nlohmann::json& json, std::string where)
      : json_(json), where_(std::move(where)) {
    if (!json.is_object()) throw corrupt("is not a JSON object");
  }

  std::string text(const char* key) const {
    const auto& value = at(key);
    if (!value.is_string()) throw corrupt(fmt::format("'{}' is not a string", key));
    return value.get<std::string>();
  }

  bool flag(const char* key) const {
    const auto& value = at(key);
    if (!value.is_boolean()) throw corrupt(fmt::format("'{}' is not a boolean", key));
    return value.get<bool>();
  }

  bool has(const char* key) const { return json_.contains(key); }

  int64_t number(const char* key, int64_t min = 0) const { return integer(at(key), key, min); }

  std::vector<int64_t> sizes(const char* key) const {
    std::vector<int64_t> sizes;
    for (const auto& item : list(key)) sizes.push_back(integer(item, key, 0));
    return sizes;
  }

  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> texts;
    for (const auto& item : list(key)) {
      if (!item.is_string()) throw corrupt(fmt::format("'{}' is not a list of strings", key));
      texts.push_back(item.get<std::string>());
    }
    return texts;
  }

  std::vector<SegmentSpec> segments(const char* key) const {
    std::vector<SegmentSpec> specs;
    for (const auto& item : list(key)) {
      const ManifestMap map(item, fmt::format("{}: {}", where_, key));
      specs.push_back({.takes = map.sizes("takes"),
                       .gradients = map.number("gradients"),
                       .keeps = map.number("keeps"),
                       .flops = map.flops()});
    }
    return specs;
  }

  // SegmentSpec::flops.
  std::vector<double> flops() const {
    std::vector<double> numbers;
    if (!has("flops")) return numbers;
    for (const auto& item : list("flops")) {
      if (!item.is_number() || !(item.get<double>() >= 0 && item.get<double>() <= kMaxFlops))
        throw corrupt("'flops' is not a list of numbers of at least 0");
      numbers.push_back(item.get<double>());
    }
    return numbers;
  }

  // `mark`: the key of TensorSpec::marked, or nullptr. `names`: names used so far; adds the new
  // ones.
  std::vector<TensorSpec> tensors(const char* key, const char* mark,
                                  std::set<std::string>& names) const {
    std::vector<TensorSpec> specs;
    for (const auto& item : list(key)) {
      const ManifestMap map(item, fmt::format("{}: {}", where_, key));
      TensorSpec spec{.name = map.text("name"), .dtype = map.text("dtype")};
      spec.shape = map.sizes("shape");
      spec.marked = mark && map.flag(mark);
      if (!names.insert(spec.name).second)
        throw corrupt(fmt::format("'{}' has duplicate name '{}'", key, printable(spec.name)));
      specs.push_back(std::move(spec));
    }
    return specs;
  }

  const nlohmann::json& at(const char* key) const {
    const auto it = json_.find(key);
    if (it == json_.end()) throw corrupt(fmt::format("'{}' is missing", key));
    return *it;
  }

  Error corrupt(const std::string& why) const {
    return config_error(fmt::format("{} {}; compile the model again", where_, why));
  }

 private:
  const nlohmann::json& list(const char* key) const {
    const auto& value = at(key);
    if (!value.is_array()) throw corrupt(fmt::format("'{}' is not a list", key));
    return value;
  }

  int64_t integer(const nlohmann::json& value, const char* key, int64_t min) const {
    const bool is_valid = value.is_number_integer() && value.get<int64_t>() >= min &&
                          value.get<int64_t>() <= kMaxSize;
    if (!is_valid) throw corrupt(fmt::format("'{}' is not an integer of at least {}", key, min));
    return value.get<int64_t>();
  }

  const nlohmann::json& json_;
  std::string where_;
};

// A tensor and a module with children cannot have the same name.
void verify_places(const std::set<std::string>& names, const ManifestMap& map) {
  for (const auto& name : names)
    for (auto dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      if (names.contains(name.substr(0, dot)))
        throw map.corrupt(fmt::format("has '{}' both as a tensor and as the module of '{}'",
                                      printable(name.substr(0, dot)), printable(name)));
}

// Each segment takes existing values.
void verify_values(const std::vector<SegmentSpec>& segments, int64_t values,
                   const ManifestMap& map) {
  for (const auto& segment : segments) {
    for (const auto number : segment.takes)
      if (number >= values)
        throw map.corrupt(fmt::format("has a segment with input {} of {} values", number, values));
    if (segment.keeps > kMaxValues)
      throw map.corrupt("has segments with too many gradients or values");
    values += segment.keeps;
  }
}

// Together the segments return every gradient once, after those of the forward pass.
void verify_segments(const PackageManifest& manifest, const ManifestMap& map) {
  const auto inputs = static_cast<int64_t>(manifest.parameters.size() + manifest.buffers.size() +
                                           manifest.fields.size());
  verify_values(manifest.segments, inputs + 1, map);
  verify_values(manifest.evaluation, inputs, map);
  auto gradients = std::count_if(manifest.parameters.begin(), manifest.parameters.end(),
                                 [](const TensorSpec& spec) { return spec.marked; });
  bool is_forward = true;
  for (const auto& segment : manifest.segments) {
    is_forward &= segment.gradients == 0;
    if (segment.gradients == 0 && !is_forward)
      throw map.corrupt("has a segment of the forward pass after one of the backward pass");
    if (segment.gradients > gradients)
      throw map.corrupt("has segments with too many gradients or values");
    gradients -= segment.gradients;
  }
  if (gradients != 0 || is_forward)
    throw map.corrupt("has segments that do not return all gradients");
  if (manifest.evaluation.empty() || manifest.evaluation.back().keeps != 0)
    throw map.corrupt("has no segments of evaluation that end with its results");
}

// Each unit is a module with parameters, and not in another unit.
void verify_units(const PackageManifest& manifest, const ManifestMap& map) {
  for (const auto& unit : manifest.units) {
    const auto has_it = [&](const std::string& name) { return name.starts_with(unit + "."); };
    const bool is_module =
        std::ranges::any_of(manifest.parameters, has_it, &TensorSpec::name) && !unit.empty();
    if (!is_module || std::ranges::any_of(manifest.units, has_it) ||
        std::ranges::count(manifest.units, unit) > 1)
      throw map.corrupt(fmt::format("has an invalid unit '{}'", printable(unit)));
  }
}

// Each tensor of the adapter is one of the package.
AdapterSpec adapter_of(const ManifestMap& map, const nlohmann::json& json, const std::string& name,
                       const std::set<std::string>& state) {
  const ManifestMap adapter(json, name + ": its manifest: 'adapter'");
  AdapterSpec spec{.config = adapter.text("config"), .tensors = {}, .model_config = {}};
  if (adapter.has("model_config")) spec.model_config = adapter.text("model_config");
  const ManifestMap tensors(adapter.at("tensors"), name + ": its manifest: 'adapter': 'tensors'");
  for (const auto& item : adapter.at("tensors").items()) {
    if (!state.contains(item.key()))
      throw map.corrupt(fmt::format("has an adapter with '{}', which is not a tensor of the model",
                                    printable(item.key())));
    spec.tensors[item.key()] = tensors.text(item.key().c_str());
  }
  return spec;
}

// Of packages without segments of evaluation: one that takes everything.
SegmentSpec whole_evaluation(const PackageManifest& manifest) {
  SegmentSpec whole;
  const auto count = manifest.parameters.size() + manifest.buffers.size() + manifest.fields.size();
  for (size_t i = 0; i < count; ++i) whole.takes.push_back(static_cast<int64_t>(i));
  return whole;
}

}  // namespace

PackageManifest parse_package_manifest(std::string_view text, const std::string& name) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const ManifestMap map(json, name + ": its manifest");
  const auto format = map.number("format");
  if (format < kOldestFormat || format > kPackageFormat)
    throw config_error(
        fmt::format("{}: package format {} is not supported, expected {}: compile the model again "
                    "with the lockstep-compile of this installation",
                    name, format, kPackageFormat));
  PackageManifest manifest{.model = map.text("name"), .torch = map.text("torch")};
  manifest.device = map.text("device");
  manifest.architecture = map.text("architecture");
  manifest.precision = map.text("precision");
  manifest.cpu_flags = map.texts("cpu_flags");
  manifest.gpu = map.text("gpu");
  manifest.batch_size = map.number("batch_size", 1);
  manifest.dynamic_batch = map.flag("dynamic_batch");
  if (map.has("largest_batch")) manifest.largest_batch = map.number("largest_batch");
  std::set<std::string> state, fields;
  manifest.parameters = map.tensors("parameters", "trainable", state);
  manifest.buffers = map.tensors("buffers", "changed", state);
  verify_places(state, map);
  manifest.fields = map.tensors("fields", nullptr, fields);
  manifest.sums = map.texts("sums");
  manifest.predictions = map.flag("predictions");
  manifest.targets = map.text("targets");
  manifest.all_count = map.text("all_count");
  if (map.has("class_field")) {
    manifest.class_field = map.text("class_field");
    manifest.num_classes = map.number("num_classes");
  }
  if (map.has("adapter")) manifest.adapter = adapter_of(map, map.at("adapter"), name, state);
  manifest.segments = map.segments("segments");
  if (format > kOldestFormat) {
    manifest.evaluation = map.segments("evaluation");
    manifest.units = map.texts("units");
  } else {
    manifest.evaluation = {whole_evaluation(manifest)};
  }
  verify_segments(manifest, map);
  verify_units(manifest, map);
  const auto& members = map.at("members");
  if (!members.is_object()) throw map.corrupt("'members' is not a JSON object");
  for (const auto& [member, facts] : members.items()) {
    const ManifestMap fact(facts, fmt::format("{}: its manifest: '{}'", name, printable(member)));
    const auto crc32 = fact.number("crc32");
    if (crc32 > UINT32_MAX) throw fact.corrupt("has an invalid checksum");
    manifest.members[member] = {static_cast<uint64_t>(fact.number("bytes")),
                                static_cast<uint32_t>(crc32)};
  }
  return manifest;
}

}  // namespace lockstep::models
