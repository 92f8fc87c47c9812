// An expression of the filter language, cut into words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct FilterWord {
  enum class Kind { Word, Text, Operator, Symbol, End };  // Text: in quotes; Symbol: ( ) ,

  Kind kind = Kind::End;
  std::string text;
  size_t column = 1;  // from 1
};

// Ends with an End. A call such as min(train/loss) is one word. Throws FilterError.
std::vector<FilterWord> filter_words(std::string_view text);

}  // namespace lockstep
