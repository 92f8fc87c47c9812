// A member of a config struct that is a list of parts, each chosen by name:
// `sinks: [console, {name: csv, path: values.csv}]`. A bare name is a part with its defaults.
#pragma once

#include <algorithm>

#include "core/config/part.h"

namespace lockstep {

template <class Interface, class... BuildArgs>
class PartList final : public AnyPart {
 public:
  using PartOf = Part<Interface, BuildArgs...>;
  using RegistryOf = typename PartOf::RegistryOf;

  // `default_names`: what the list holds when the run file says nothing; registered names.
  explicit PartList(RegistryOf& registry, const std::vector<std::string>& default_names = {})
      : registry_(&registry) {
    for (const auto& name : default_names) parts_.emplace_back(registry, name);
  }

  void read(const ConfigNode& node, const std::string& path) override {
    if (node.kind != ConfigNode::Kind::List)
      throw bad_value(node, path, "a list such as [{name: ...}]");
    parts_.clear();
    for (size_t i = 0; i < node.items.size(); ++i)
      add(node.items[i], path + "[" + std::to_string(i) + "]");
  }

  Json dump() const override {
    auto list = Json::array();
    for (const auto& part : parts_) list.push_back(part.dump());
    return list;
  }

  Json schema() const override {
    const auto part = PartOf(*registry_).schema();
    const Json item = {
        {"anyOf", Json::array({Json{{"enum", registry_->names()}},
                               Json{{"type", "object"}, {"anyOf", part["anyOf"]}}})}};
    auto defaults = Json::array();
    for (const auto& chosen : parts_) defaults.push_back(chosen.name());
    return {
        {"type", "array"}, {"items", item}, {"default", defaults}, {"x-parts", part["x-parts"]}};
  }

  const std::vector<PartOf>& parts() const { return parts_; }

  // The part of that name, or nullptr.
  const PartOf* find(const std::string& name) const {
    const auto it = std::ranges::find(parts_, name, [](const PartOf& part) { return part.name(); });
    return it == parts_.end() ? nullptr : &*it;
  }

 private:
  void add(const ConfigNode& item, const std::string& path) {
    PartOf part(*registry_);
    if (item.kind == ConfigNode::Kind::Scalar) {
      ConfigNode map{.kind = ConfigNode::Kind::Map, .origin = item.origin};
      map.members.emplace_back("name", item);
      part.read(map, path);
    } else {
      part.read(item, path);
    }
    if (find(part.name()))
      throw config_error(item.origin + ": " + path + ": " + registry_->kind() + " '" + part.name() +
                         "' is listed twice");
    parts_.push_back(std::move(part));
  }

  RegistryOf* registry_;
  std::vector<PartOf> parts_;
};

}  // namespace lockstep
