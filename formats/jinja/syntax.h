// A parsed Jinja template. No LibTorch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "formats/jinja/value.h"

namespace lockstep::formats::jinja {

struct Expression;
struct Statement;
struct Function;
using ExpressionPointer = std::unique_ptr<Expression>;
using Block = std::vector<std::unique_ptr<Statement>>;

struct Expression {
  enum class Kind {
    Literal,      // value
    Name,         // name
    List,         // parts, a tuple if is_tuple
    Map,          // parts: key, value, key, value, ...
    Attribute,    // parts[0].name
    Item,         // parts[0][parts[1]]
    Slice,        // parts[0][parts[1]:parts[2]:parts[3]]; null: not given
    Call,         // parts[0](parts[1], ..., named)
    Filter,       // parts[0] | name(parts[1], ..., named)
    Test,         // parts[0] is name(parts[1], ...)
    Not,          // not parts[0]
    Negative,     // -parts[0]
    And,          // parts[0] and parts[1]
    Or,           // parts[0] or parts[1]
    Arithmetic,   // parts[0] name parts[1]
    Comparison,   // parts[0] names[0] parts[1] names[1] parts[2] ...
    Conditional,  // parts[0] if parts[1] else parts[2]; null: undefined
  };
  Kind kind;
  int64_t line;
  Value value = {};
  std::string name = {};
  std::vector<std::string> names = {};
  std::vector<ExpressionPointer> parts = {};
  std::vector<std::pair<std::string, ExpressionPointer>> named = {};
  const Function* function = nullptr;  // of a filter or test
  bool is_tuple = false;
  size_t depth = 1;  // of the tree
};

struct Statement {
  enum class Kind {
    Text,        // text
    Output,      // expressions[0]
    If,          // expressions[i]: condition of bodies[i]; one more body: else
    For,         // targets in expressions[0] if expressions[1]; bodies[1]: else
    Set,         // targets = expressions[0]
    SetMember,   // targets[0].targets[1] = expressions[0]
    SetBlock,    // targets[0] = what bodies[0] writes
    Macro,       // text(targets, with defaults in expressions; null: none)
    Generation,  // bodies[0]
    Break,
    Continue,
  };
  Kind kind;
  int64_t line;
  std::string text = {};
  std::vector<std::string> targets = {};
  std::vector<ExpressionPointer> expressions = {};
  std::vector<Block> bodies = {};
  bool uses_loop = false;  // a For whose body reads "loop"
};

// Parses a template. Throws Problem, which begins with "line N: ".
struct Syntax {
  Block body;
  bool has_generation = false;
  bool uses_date = false;  // calls strftime_now
};
Syntax parse_syntax(std::string_view source);

}  // namespace lockstep::formats::jinja
