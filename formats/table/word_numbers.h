// Numbers the distinct strings of a table column.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

#include "formats/table/table.h"

namespace lockstep::formats {

// The index of each distinct string of a column.
using WordNumbers = std::unordered_map<std::string, int32_t>;

// The index of a string in `out.words`; adds it if it is new.
inline int32_t number_of_word(std::string word, TableColumn& out, WordNumbers& known) {
  const auto [found, is_new] =
      known.emplace(std::move(word), static_cast<int32_t>(out.words.size()));
  if (is_new) out.words.push_back(found->first);
  return found->second;
}

}  // namespace lockstep::formats
