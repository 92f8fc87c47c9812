// Registries of the parts that a run file selects by name: models, datasets, optimizers, schedules,
// sinks and others. A part is a class with a member type `Config` (a struct with a fields()
// function, config_fields.h) and a constructor `(const Config&, BuildArgs...)`. Programs and
// plugins register parts with the REGISTER_ macro of their kind (model.h, dataset.h, ...).
//
// Example, a new kind of part:
//   class Activation {
//    public:
//     virtual ~Activation() = default;
//     virtual double apply(double x) const = 0;
//   };
//   using ActivationRegistry = lockstep::Registry<Activation>;
//   ActivationRegistry& activation_registry() {
//     static ActivationRegistry registry("activation");
//     return registry;
//   }
//
//   struct ReluConfig {
//     double slope = 0;
//   };
//   template <class V>
//   void fields(V& v, ReluConfig& c) {
//     v("slope", c.slope, "slope for negative inputs");
//   }
//   struct Relu final : Activation {
//     using Config = ReluConfig;
//     explicit Relu(const Config& c) : config(c) {}
//     double apply(double x) const override { return x > 0 ? x : config.slope * x; }
//     Config config;
//   };
//   const lockstep::Registration<Relu> registered(activation_registry(), "relu", "max(x, 0)");
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/config_fields.h"

namespace lockstep {

// Config errors for something other than a map, which suggests the nearest of `names`, and for a
// missing or unknown `name:` of a part; `origin` and `path` are its location.
Error not_a_part(const ConfigNode& node, const std::string& path,
                 const std::vector<std::string>& names);
Error missing_part_name(const std::string& origin, const std::string& path,
                        const std::vector<std::string>& names);
Error unknown_part_name(const std::string& origin, const std::string& path, const std::string& kind,
                        const std::string& name, const std::vector<std::string>& names);

// A part that is selected and configured, but not built yet.
template <class Interface, class... BuildArgs>
class Blueprint {
 public:
  virtual ~Blueprint() = default;
  virtual void read(const ConfigNode& map, const std::string& path) = 0;
  virtual Json dump() const = 0;
  virtual Json schema() const = 0;
  virtual std::shared_ptr<Interface> build(BuildArgs... args) const = 0;
};

// The parts of one kind, by name.
//
// Thread: parts are registered during static initialization and plugin loading; read-only
// afterwards.
template <class Interface, class... BuildArgs>
class Registry {
 public:
  using MakeBlueprint = std::unique_ptr<Blueprint<Interface, BuildArgs...>> (*)();
  struct Entry {
    std::string name, help;
    MakeBlueprint make;
  };

  // `kind`: the name of this kind of part in messages, e.g. "model".
  explicit Registry(std::string kind) : kind_(std::move(kind)) {}

  // verify() reports duplicate names: an exception here would terminate the program before main().
  void add(Entry entry) {
    auto& target = find(entry.name) ? duplicates_ : entries_;
    target.push_back(std::move(entry));
  }

  // Throws Config when two parts have the same name.
  void verify() const {
    if (!duplicates_.empty())
      throw config_error("two " + kind_ + "s are registered as '" + duplicates_.front().name +
                         "': rename the one in the plugin");
  }

  const std::string& kind() const { return kind_; }
  const std::vector<Entry>& entries() const { return entries_; }

  // The part called `name`, or nullptr.
  const Entry* find(const std::string& name) const {
    const auto it = std::find_if(entries_.begin(), entries_.end(),
                                 [&](const Entry& e) { return e.name == name; });
    return it == entries_.end() ? nullptr : &*it;
  }

  // In alphabetical order.
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

// The blueprint of a class T with a member type `Config` and a constructor from it.
template <class T, class Interface, class... BuildArgs>
class ConfiguredBlueprint final : public Blueprint<Interface, BuildArgs...> {
 public:
  void read(const ConfigNode& map, const std::string& path) override {
    ConfigReader reader(map, path);
    reader.skip("name");
    fields(reader, config_);
    reader.finish(config_);
  }
  Json dump() const override { return ConfigDumper::dump(config_); }
  Json schema() const override { return ConfigDescriber::describe(config_); }
  std::shared_ptr<Interface> build(BuildArgs... args) const override {
    return std::make_shared<T>(config_, args...);
  }

 private:
  typename T::Config config_;
};

// Registers T on construction; `help` is one line for --help and the schema. The REGISTER_ macros
// define a static object of this type.
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
