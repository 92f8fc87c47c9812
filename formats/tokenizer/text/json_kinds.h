// Makes the objects that a tokenizer.json describes, by their "type".
#pragma once

#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "formats/tokenizer/text/json_part.h"

namespace lockstep::formats {

template <class Base>
using JsonKinds = std::map<std::string, std::unique_ptr<Base> (*)(const JsonPart&)>;

// The function in JsonKinds for a class without settings, or with a constructor that reads them.
template <class Base, class Kind>
std::unique_ptr<Base> make_kind(const JsonPart& json) {
  if constexpr (std::is_default_constructible_v<Kind>)
    return std::make_unique<Kind>();
  else
    return std::make_unique<Kind>(json);
}

// Throws Config if the type is none of `kinds`.
template <class Base>
std::unique_ptr<Base> make_any(const JsonKinds<Base>& kinds, const JsonPart& json) {
  const auto found = kinds.find(json.type());
  if (found == kinds.end()) throw json.unsupported(names_of(kinds));
  return found->second(json);
}

// The elements of the array `key`. Throws Config if one is null.
template <class Base>
std::vector<std::unique_ptr<Base>> make_all(const JsonPart& json, const char* key,
                                            std::unique_ptr<Base> (*make)(const JsonPart&)) {
  std::vector<std::unique_ptr<Base>> all;
  for (const auto& part : json.parts(key)) {
    if (part.is_null()) throw part.refused("it is null");
    all.push_back(make(part));
  }
  return all;
}

}  // namespace lockstep::formats
