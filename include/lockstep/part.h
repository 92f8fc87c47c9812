// Members of a config struct that a run file selects by name: a Part is one registered part, a
// PartList several.
//
// Example:
//   struct StageConfig {
//     lockstep::Part<lockstep::Model> model{lockstep::model_registry(), "mlp"};
//     lockstep::PartList<lockstep::Sink, const lockstep::SinkContext&> sinks{
//         lockstep::sink_registry()};
//   };
//   template <class V>
//   void fields(V& v, StageConfig& c) {
//     v("model", c.model, "the model to train");       // model: {name: mlp, hidden: [256]}
//     v("sinks", c.sinks, "destinations of metrics");  // sinks: [console, {name: csv}]
//   }
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/registry.h"

namespace lockstep {

// One part, written as a map with the key `name`.
template <class Interface, class... BuildArgs>
class Part final : public AnyPart {
 public:
  using RegistryOf = Registry<Interface, BuildArgs...>;

  // `default_name`: the part used when the run file does not select one; empty: none.
  explicit Part(RegistryOf& registry, std::string default_name = {})
      : registry_(&registry), name_(std::move(default_name)) {}

  void read(const ConfigNode& node, const std::string& path) override {
    if (node.kind != ConfigNode::Kind::Map) throw not_a_part(node, path, registry_->names());
    if (const auto* name = node.find("name")) {
      name_ = ConfigValue<std::string>::read(*name, path + ".name");
      select(name->origin, path);
    } else if (name_.empty()) {
      throw missing_part_name(node.origin, path, registry_->names());
    } else {
      select(node.origin, path);
    }
    blueprint_->read(node, path);
  }

  // null when no part is selected.
  Json dump() const override {
    if (!is_set()) return nullptr;
    Json json = {{"name", name_}};
    if (const auto* chosen = blueprint()) json.update(chosen->dump());
    return json;
  }

  Json schema() const override {
    auto parts = Json::array();
    for (const auto& name : registry_->names()) {
      const auto* entry = registry_->find(name);
      auto schema = entry->make()->schema();
      Json properties = {{"name", {{"const", name}}}};
      properties.update(schema["properties"]);
      schema["properties"] = std::move(properties);
      if (name != name_) schema["required"].push_back("name");
      schema["description"] = entry->help;
      parts.push_back(std::move(schema));
    }
    return {{"type", "object"}, {"anyOf", parts}, {"x-parts", parts}};
  }

  bool is_set() const { return !name_.empty(); }
  const std::string& name() const { return name_; }

  // Returns a new object. Requires is_set(). Throws what the part's constructor throws.
  std::shared_ptr<Interface> build(BuildArgs... args) const { return blueprint()->build(args...); }

 private:
  using BlueprintOf = Blueprint<Interface, BuildArgs...>;

  void select(const std::string& origin, const std::string& path) {
    const auto* entry = registry_->find(name_);
    if (!entry) throw unknown_part_name(origin, path, registry_->kind(), name_, registry_->names());
    blueprint_ = entry->make();
  }

  const BlueprintOf* blueprint() const {
    if (!blueprint_ && is_set())
      if (const auto* entry = registry_->find(name_)) blueprint_ = entry->make();
    return blueprint_.get();
  }

  RegistryOf* registry_;
  std::string name_;
  // Shared by copies of a config: immutable after read().
  mutable std::shared_ptr<BlueprintOf> blueprint_;
};

// A list of parts, each at most once: `sinks: [console, {name: csv, path: values.csv}]`. A bare
// name selects a part with its defaults.
template <class Interface, class... BuildArgs>
class PartList final : public AnyPart {
 public:
  using PartOf = Part<Interface, BuildArgs...>;
  using RegistryOf = typename PartOf::RegistryOf;

  // `default_names`: the parts used when the run file has no list.
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
    Json item = false;  // matches nothing; used when no part is registered
    if (!registry_->entries().empty())
      item = {{"anyOf", Json::array({Json{{"enum", registry_->names()}},
                                     Json{{"type", "object"}, {"anyOf", part["anyOf"]}}})}};
    auto defaults = Json::array();
    for (const auto& chosen : parts_) defaults.push_back(chosen.name());
    return {
        {"type", "array"}, {"items", item}, {"default", defaults}, {"x-parts", part["x-parts"]}};
  }

  const std::vector<PartOf>& parts() const { return parts_; }

  // The part called `name`, or nullptr.
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
