// Splits the text of a Jinja template into tokens, with its control of white space. No LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::formats::jinja {

struct Token {
  enum class Kind {
    Text,  // outside of tags
    BlockBegin,
    BlockEnd,
    OutputBegin,
    OutputEnd,
    Name,
    String,
    Integer,
    Float,
    Operator,
    End
  };
  Kind kind;
  std::string text;  // of strings: their value
  int64_t line = 1;
};

// The tokens of a template, with trim_blocks and lstrip_blocks, as transformers sets them. Throws
// Problem, which begins with "line N: ".
std::vector<Token> tokens_of(std::string_view source);

}  // namespace lockstep::formats::jinja
