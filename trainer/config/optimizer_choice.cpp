#include "trainer/config/optimizer_choice.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "lockstep/error.h"
#include "trainer/state/grouped_optimizer.h"

namespace lockstep::trainer {
namespace {

bool matches_pattern(const std::string& pattern, const std::string& parameter) {
  return ::fnmatch(pattern.c_str(), parameter.c_str(), 0) == 0;
}

// A suggestion for a pattern that matches nothing.
std::string similar_names(const std::string& pattern, const std::vector<std::string>& parameters) {
  auto plain = pattern;
  std::erase_if(plain, [](char c) { return c == '*'; });
  std::vector<std::string> containing;
  for (const auto& name : parameters)
    if (plain.size() > 2 && name.find(plain) != std::string::npos) containing.push_back(name);
  if (containing.empty())
    if (const auto near = nearest_name(plain, parameters)) containing.push_back(*near);
  if (!containing.empty()) return fmt::format("; did you mean '{}'?", containing.front());
  std::string list;
  for (size_t i = 0; i < std::min<size_t>(3, parameters.size()); ++i)
    list += (i == 0 ? "" : ", ") + parameters[i];
  return fmt::format("; names are e.g. {}", list);
}

ConfigNode map_without(const ConfigNode& map, const std::vector<std::string>& keys) {
  auto rest = map;
  std::erase_if(rest.members, [&](const auto& member) {
    return std::ranges::find(keys, member.key) != keys.end();
  });
  return rest;
}

Json schema_of_groups(const Json& optimizer) {
  Json properties = {
      {"match",
       {{"type", "string"},
        {"description",
         "pattern of parameter names, with * and ?; the first that matches counts"}}},
      {"frozen",
       {{"type", "boolean"},
        {"default", false},
        {"description", "do not train these parameters"}}}};
  for (const auto& [key, value] : optimizer["properties"].items())
    if (key != "name") properties[key] = value;
  return {{"type", "array"},
          {"items",
           {{"type", "object"},
            {"properties", properties},
            {"required", Json::array({"match"})},
            {"additionalProperties", false}}},
          {"default", Json::array()},
          {"description",
           "parameters with their own settings: match (pattern of names, with * and ?; the first "
           "group that matches counts), frozen, and any of the keys above"}};
}

}  // namespace

OptimizerChoice::OptimizerChoice() : part_(optimizer_registry(), "sgd") {}

void OptimizerChoice::read(const ConfigNode& node, const std::string& path) {
  if (node.kind != ConfigNode::Kind::Map) return part_.read(node, path);
  groups_.clear();
  const auto base = map_without(node, {"groups"});
  part_.read(base, path);
  const auto* const groups = node.find("groups");
  if (!groups || groups->kind == ConfigNode::Kind::Null) return;
  if (groups->kind != ConfigNode::Kind::List)
    throw bad_value(*groups, path + ".groups", "a list such as [{match: '*.bias', lr: 1e-4}]");
  for (size_t i = 0; i < groups->items.size(); ++i)
    groups_.push_back(read_group(groups->items[i], base, fmt::format("{}.groups[{}]", path, i)));
}

OptimizerChoice::Group OptimizerChoice::read_group(const ConfigNode& node, const ConfigNode& base,
                                                   const std::string& path) const {
  if (node.kind != ConfigNode::Kind::Map)
    throw bad_value(node, path, "a map such as {match: '*.bias', lr: 1e-4}");
  const auto* const match = node.find("match");
  if (!match) throw config_error(fmt::format("{}: {}.match: is required", node.origin, path));
  Group group{.match = ConfigValue<std::string>::read(*match, path + ".match"),
              .origin = fmt::format("{}: {}.match", match->origin, path),
              .is_frozen = false,
              .own = nullptr,
              .keys = {}};
  if (const auto* const frozen = node.find("frozen"))
    group.is_frozen = ConfigValue<bool>::read(*frozen, path + ".frozen");
  if (node.find("name"))
    throw config_error(fmt::format("{}: {}.name: all groups have the same optimizer, '{}'",
                                   node.find("name")->origin, path, name()));
  const auto own = map_without(node, {"match", "frozen"});
  for (const auto& member : own.members) group.keys.push_back(member.key);
  if (group.is_frozen && !group.keys.empty())
    throw config_error(fmt::format("{}: {}.{}: has no effect on frozen parameters",
                                   own.members.front().value.origin, path, group.keys.front()));
  if (group.is_frozen) return group;
  group.own = optimizer_registry().find(name())->make();
  group.own->read(base, "optimizer");
  // What the optimizer requires is required in the base only.
  auto complete = own;
  const auto schema = group.own->schema();
  if (schema.contains("required"))
    for (const auto& item : schema["required"]) {
      const auto key = item.get<std::string>();
      const auto* const value = base.find(key);
      if (value && !own.find(key)) complete.members.push_back({key, *value});
    }
  group.own->read(complete, path);
  return group;
}

Json OptimizerChoice::dump() const {
  auto json = part_.dump();
  if (groups_.empty()) return json;
  auto list = Json::array();
  for (const auto& group : groups_) {
    Json item = {{"match", group.match}};
    if (group.is_frozen) item["frozen"] = true;
    if (group.own) {
      const auto all = group.own->dump();
      for (const auto& key : group.keys) item[key] = all[key];
    }
    list.push_back(std::move(item));
  }
  json["groups"] = std::move(list);
  return json;
}

Json OptimizerChoice::schema() const {
  auto schema = part_.schema();
  for (const auto* const list : {"anyOf", "x-parts"})
    for (auto& part : schema[list]) part["properties"]["groups"] = schema_of_groups(part);
  return schema;
}

const OptimizerChoice::Group* OptimizerChoice::find_group(const std::string& parameter) const {
  const auto found = std::ranges::find_if(
      groups_, [&](const Group& group) { return matches_pattern(group.match, parameter); });
  return found == groups_.end() ? nullptr : &*found;
}

bool OptimizerChoice::is_frozen(const std::string& parameter) const {
  const auto* const group = find_group(parameter);
  return group && group->is_frozen;
}

void OptimizerChoice::verify_groups(const std::vector<std::string>& parameters) const {
  for (const auto& group : groups_)
    if (std::ranges::none_of(parameters,
                             [&](const auto& name) { return matches_pattern(group.match, name); }))
      throw config_error(fmt::format("{}: no parameter matches '{}'{}", group.origin,
                                     printable(group.match, 200),
                                     similar_names(group.match, parameters)));
}

std::shared_ptr<Optimizer> OptimizerChoice::build(const NamedTensors& parameters) const {
  if (groups_.empty()) return part_.build(parameters);
  std::vector<NamedTensors> members(groups_.size() + 1);  // the first: of no group
  for (const auto& [name, parameter] : parameters) {
    const auto* const group = find_group(name);
    members[group ? static_cast<size_t>(group - groups_.data()) + 1 : 0].emplace_back(name,
                                                                                      parameter);
  }
  std::vector<GroupedOptimizer::Group> built;
  for (size_t i = 0; i < members.size(); ++i) {
    const auto* const group = i == 0 ? nullptr : &groups_[i - 1];
    if (group && group->is_frozen) continue;
    built.push_back({group ? group->own->build(members[i]) : part_.build(members[i]), {}});
    for (const auto& [name, parameter] : members[i]) built.back().parameters.insert(name);
  }
  return std::make_shared<GroupedOptimizer>(std::move(built));
}

}  // namespace lockstep::trainer
