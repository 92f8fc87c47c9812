// A closed set of choices in a run file, as an enum. The names stand beside the enum:
//
//   enum class Precision { Float32, BFloat16 };
//   constexpr auto choices(Precision) {
//     return choice_names<Precision>({{Precision::Float32, "fp32"}, {Precision::BFloat16,
//     "bf16"}});
//   }
//
// A field of that type is read, dumped and described by these names.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/config/config_value.h"

namespace lockstep {

template <class E, size_t N>
constexpr std::array<std::pair<E, const char*>, N> choice_names(
    std::pair<E, const char*> const (&names)[N]) {
  return std::to_array(names);
}

template <class E>
concept IsChoice = std::is_enum_v<E> && requires(E value) {
  choices(value);
};

// The name of `value` in a run file.
template <IsChoice E>
const char* name_of(E value) {
  for (const auto& [choice, name] : choices(E{}))
    if (choice == value) return name;
  return "";
}

// The position of the text of `node` among `names`. Throws Config, naming the nearest one.
size_t read_choice(const ConfigNode& node, const std::string& path,
                   const std::vector<std::string>& names);

template <IsChoice E>
struct ConfigValue<E> {
  static E read(const ConfigNode& node, const std::string& path) {
    return choices(E{})[read_choice(node, path, names())].first;
  }
  static Json dump(E value) { return name_of(value); }
  static Json schema() { return {{"type", "string"}, {"enum", names()}}; }

 private:
  static std::vector<std::string> names() {
    std::vector<std::string> names;
    for (const auto& [choice, name] : choices(E{})) names.emplace_back(name);
    return names;
  }
};

}  // namespace lockstep
