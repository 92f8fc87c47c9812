// Registries: which models, datasets, optimizers, schedules and sinks there are, by the name a run
// file uses. A part is one class with a `Config` member type (an aggregate with fields()) and a
// constructor
// `(const Config&, BuildArgs...)`. One line registers it, in a program as well as in a plugin.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/config/config_fields.h"

namespace lockstep {

// Errors about the `name:` of a part that a run file chooses; `origin` and `path` say where.
Error missing_part_name(const std::string& origin, const std::string& path,
                        const std::vector<std::string>& names);
Error unknown_part_name(const std::string& origin, const std::string& path, const std::string& kind,
                        const std::string& name, const std::vector<std::string>& names);

// A part that was chosen and configured, but not built yet.
template <class Interface, class... BuildArgs>
class Blueprint {
 public:
  virtual ~Blueprint() = default;
  virtual void read(const ConfigNode& map, const std::string& path) = 0;
  virtual Json dump() const = 0;
  virtual Json schema() const = 0;
  virtual std::shared_ptr<Interface> build(BuildArgs... args) const = 0;
};

// Thread: register before main() starts building (static initialisation, plugins); read only
// afterwards.
template <class Interface, class... BuildArgs>
class Registry {
 public:
  using MakeBlueprint = std::unique_ptr<Blueprint<Interface, BuildArgs...>> (*)();
  struct Entry {
    std::string name, help;
    MakeBlueprint make;
  };

  // `kind`: what the parts are called in messages, e.g. "model".
  explicit Registry(std::string kind) : kind_(std::move(kind)) {}

  // A name that is taken is remembered and reported by verify(): throwing here would end a program
  // before main.
  void add(Entry entry) {
    auto& target = find(entry.name) ? duplicates_ : entries_;
    target.push_back(std::move(entry));
  }

  // Throws Config when two parts were registered under one name.
  void verify() const {
    if (!duplicates_.empty())
      throw config_error("two " + kind_ + "s are registered as '" + duplicates_.front().name +
                         "': rename the one in the plugin");
  }

  const std::string& kind() const { return kind_; }
  const std::vector<Entry>& entries() const { return entries_; }

  const Entry* find(const std::string& name) const {
    const auto it = std::find_if(entries_.begin(), entries_.end(),
                                 [&](const Entry& e) { return e.name == name; });
    return it == entries_.end() ? nullptr : &*it;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : entries_) names.push_back(entry.name);
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::string kind_;
  std::vector<Entry> entries_, duplicates_;
};

// The blueprint of any class that follows the rule above.
template <class T, class Interface, class... BuildArgs>
class ConfiguredBlueprint final : public Blueprint<Interface, BuildArgs...> {
 public:
  void read(const ConfigNode& map, const std::string& path) override {
    ConfigReader reader(map, path);
    reader.skip("name");
    fields(reader, config_);
    reader.finish();
  }
  Json dump() const override { return ConfigDumper::dump(config_); }
  Json schema() const override { return ConfigDescriber::describe(config_); }
  std::shared_ptr<Interface> build(BuildArgs... args) const override {
    return std::make_shared<T>(config_, args...);
  }

 private:
  typename T::Config config_;
};

// Used by the REGISTER_ macros: a static object whose constructor registers T.
template <class T>
struct Registration {
  template <class Interface, class... BuildArgs>
  Registration(Registry<Interface, BuildArgs...>& registry, const char* name, const char* help) {
    registry.add({name, help, []() -> std::unique_ptr<Blueprint<Interface, BuildArgs...>> {
                    return std::make_unique<ConfiguredBlueprint<T, Interface, BuildArgs...>>();
                  }});
  }
};

}  // namespace lockstep
