#include "formats/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "formats/jinja/characters.h"

namespace lockstep::formats::jinja {
namespace {

// Depth and weight of a container with these values in it.
template <class Container>
void measure(Container& container, const Value& item) {
  if (item.namespace_members()) throw Problem("a namespace cannot be stored in another value");
  container.depth = std::max(container.depth, item.depth() + 1);
  container.weight += item.text() ? 1 : item.weight();
  if (container.depth > kMaxValueDepth)
    throw Problem(fmt::format("a value is nested more than {} levels deep", kMaxValueDepth));
  if (container.weight > kMaxItems)
    throw Problem(fmt::format("a value has more than {} items", kMaxItems));
}

template <class Range>
auto find_member(Range& members, std::string_view key) {
  return std::ranges::find_if(members, [&](const auto& member) { return member.first == key; });
}

}  // namespace

Value::Value(std::string text) : data_(std::make_shared<const std::string>(std::move(text))) {
  if (this->text()->size() > kMaxTextBytes)
    throw Problem(fmt::format("a text is longer than {} bytes", kMaxTextBytes));
}

Value Value::none() { return Value(Data(nullptr)); }
Value Value::undefined(std::string name) { return Value(Data(Undefined{std::move(name)})); }

Value Value::list(Values items, bool is_tuple) {
  auto list = std::make_shared<List>();
  list->is_tuple = is_tuple;
  for (const auto& item : items) measure(*list, item);
  list->items = std::move(items);
  return Value(Data(std::shared_ptr<const List>(std::move(list))));
}

Value Value::map(Members members) {
  auto map = std::make_shared<Map>();
  for (auto& member : members) {
    measure(*map, member.second);
    const auto same = find_member(map->members, member.first);
    if (same == map->members.end())
      map->members.push_back(std::move(member));
    else
      same->second = std::move(member.second);
  }
  return Value(Data(std::shared_ptr<const Map>(std::move(map))));
}

Value Value::make_namespace(Members members) {
  const auto checked = map(std::move(members));
  return Value(Data(std::make_shared<Namespace>(Namespace{*checked.members()})));
}

Value Value::from_json(const nlohmann::ordered_json& json, size_t depth) {
  if (depth > kMaxValueDepth)
    throw Problem(fmt::format("a value is nested more than {} levels deep", kMaxValueDepth));
  switch (json.type()) {
    case nlohmann::json::value_t::boolean: return Value(json.get<bool>());
    case nlohmann::json::value_t::number_integer: return Value(json.get<int64_t>());
    case nlohmann::json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
        throw Problem("a number is too large");
      return Value(json.get<int64_t>());
    case nlohmann::json::value_t::number_float: return Value(json.get<double>());
    case nlohmann::json::value_t::string: return Value(json.get_ref<const std::string&>());
    case nlohmann::json::value_t::array: {
      Values items;
      for (const auto& item : json) items.push_back(from_json(item, depth + 1));
      return list(std::move(items));
    }
    case nlohmann::json::value_t::object: {
      Members members;
      for (const auto& [key, item] : json.items())
        members.emplace_back(key, from_json(item, depth + 1));
      return map(std::move(members));
    }
    default: return none();
  }
}

const std::string* Value::text() const {
  const auto* text = as<std::shared_ptr<const std::string>>();
  return text ? text->get() : nullptr;
}

const Values* Value::items() const {
  const auto* list = as<std::shared_ptr<const List>>();
  return list ? &(*list)->items : nullptr;
}

bool Value::is_tuple() const {
  const auto* list = as<std::shared_ptr<const List>>();
  return list && (*list)->is_tuple;
}

const Members* Value::members() const {
  if (const auto* map = as<std::shared_ptr<const Map>>()) return &(*map)->members;
  return namespace_members();
}

Members* Value::namespace_members() const {
  const auto* space = as<std::shared_ptr<Namespace>>();
  return space ? &(*space)->members : nullptr;
}

const Value* Value::find(std::string_view key) const {
  const auto* all = members();
  if (!all) return nullptr;
  const auto found = find_member(*all, key);
  return found == all->end() ? nullptr : &found->second;
}

double Value::number() const {
  if (const auto* real = as<double>()) return *real;
  return static_cast<double>(integer());
}

int64_t Value::integer() const {
  if (const auto* flag = as<bool>()) return *flag ? 1 : 0;
  return *as<int64_t>();
}

bool Value::is_true() const {
  if (is_undefined() || is_none()) return false;
  if (is_number()) return number() != 0;
  if (text()) return !text()->empty();
  if (items()) return !items()->empty();
  if (namespace_members()) return true;
  return !members() || !members()->empty();
}

const char* Value::type() const {
  if (is_undefined()) return "undefined";
  if (is_none()) return "None";
  if (as<bool>()) return "bool";
  if (as<int64_t>()) return "int";
  if (as<double>()) return "float";
  if (text()) return "str";
  if (items()) return is_tuple() ? "tuple" : "list";
  if (namespace_members()) return "namespace";
  return members() ? "dict" : "function";
}

size_t Value::weight() const {
  if (text()) return text()->size() + 1;
  if (const auto* list = as<std::shared_ptr<const List>>()) return (*list)->weight;
  if (const auto* map = as<std::shared_ptr<const Map>>()) return (*map)->weight;
  return 1;
}

size_t Value::depth() const {
  if (const auto* list = as<std::shared_ptr<const List>>()) return (*list)->depth;
  if (const auto* map = as<std::shared_ptr<const Map>>()) return (*map)->depth;
  return 0;
}

bool equal(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return a.integer() == b.integer();
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.text() && b.text()) return *a.text() == *b.text();
  if (a.items() && b.items())
    return a.is_tuple() == b.is_tuple() && std::ranges::equal(*a.items(), *b.items(), equal);
  if (a.namespace_members() || b.namespace_members())
    return a.namespace_members() == b.namespace_members();
  if (a.members() && b.members())
    return a.members()->size() == b.members()->size() &&
           std::ranges::all_of(*a.members(), [&](const auto& member) {
             const auto* other = b.find(member.first);
             return other && equal(member.second, *other);
           });
  if (a.as<Callable>() && b.as<Callable>()) return *a.as<Callable>() == *b.as<Callable>();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

int compare(const Value& a, const Value& b) {
  const auto sign = [](const auto& x, const auto& y) { return x < y ? -1 : (x > y ? 1 : 0); };
  if (a.is_integer() && b.is_integer()) return sign(a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return sign(a.number(), b.number());
  if (a.text() && b.text()) return sign(*a.text(), *b.text());
  throw Problem(fmt::format("{} and {} cannot be ordered", a.type(), b.type()));
}

size_t length_of(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.text()) return count_characters(*value.text());
  if (value.items()) return value.items()->size();
  if (value.members() && !value.namespace_members()) return value.members()->size();
  throw Problem(fmt::format("{} has no length", value.type()));
}

bool contains(const Value& container, const Value& item) {
  if (container.is_undefined()) return false;
  if (container.text()) {
    if (!item.text()) throw Problem(fmt::format("'in' a text needs a text, got {}", item.type()));
    return container.text()->find(*item.text()) != std::string::npos;
  }
  if (container.items())
    return std::ranges::any_of(*container.items(), [&](const auto& x) { return equal(x, item); });
  if (container.members() && !container.namespace_members())
    return item.text() && container.find(*item.text());
  throw Problem(fmt::format("'in' needs a list, dict or text, got {}", container.type()));
}

Values iterate(const Value& value) {
  if (value.items()) return *value.items();
  Values items;
  if (value.text()) {
    for (const auto character : characters_of(*value.text())) items.emplace_back(character);
  } else if (value.members() && !value.namespace_members()) {
    for (const auto& member : *value.members()) items.emplace_back(member.first);
  } else if (!value.is_undefined()) {
    throw Problem(fmt::format("{} is not a list", value.type()));
  }
  return items;
}

}  // namespace lockstep::formats::jinja
