// A member of a config struct that is chosen by name: `model: {name: mlp, hidden: [256]}`.
#pragma once

#include "core/config/registry.h"

namespace lockstep {

template <class Interface, class... BuildArgs>
class Part final : public AnyPart {
 public:
  using RegistryOf = Registry<Interface, BuildArgs...>;

  // `default_name`: what is used when the run file says nothing; empty when it must say something.
  explicit Part(RegistryOf& registry, std::string default_name = {})
      : registry_(&registry), name_(std::move(default_name)) {}

  void read(const ConfigNode& node, const std::string& path) override {
    if (node.kind != ConfigNode::Kind::Map)
      throw bad_value(node, path, "a map such as {name: " + first_name() + "}");
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

  // null when nothing is chosen, which reads back as nothing chosen.
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

  // Requires is_set().
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

  std::string first_name() const {
    return registry_->entries().empty() ? "..." : registry_->names().front();
  }

  RegistryOf* registry_;
  std::string name_;
  mutable std::shared_ptr<BlueprintOf>
      blueprint_;  // shared: a config may be copied; it is const once read
};

}  // namespace lockstep
