// Parses the tokens of a Jinja template. Only files of formats/ include this.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/jinja/syntax.h"
#include "formats/jinja/tokens.h"

namespace lockstep::formats::jinja {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  Syntax run();

 private:
  friend class Nesting;

  // Statements.
  Block block(std::initializer_list<std::string_view> ends);
  std::unique_ptr<Statement> statement();
  std::unique_ptr<Statement> if_statement();
  std::unique_ptr<Statement> for_statement();
  std::unique_ptr<Statement> set_statement();
  std::unique_ptr<Statement> macro_statement();
  std::unique_ptr<Statement> generation_statement();
  std::unique_ptr<Statement> jump_statement(Statement::Kind kind);
  std::unique_ptr<Statement> make(Statement::Kind kind) const;
  void finish_tag();
  void end_of(std::string_view tag);

  // Expressions, by increasing precedence.
  ExpressionPointer tuple();
  ExpressionPointer expression();  // with a condition
  ExpressionPointer disjunction();
  ExpressionPointer conjunction();
  ExpressionPointer negation();
  ExpressionPointer comparison();
  ExpressionPointer sum();
  ExpressionPointer concatenation();
  ExpressionPointer product();
  ExpressionPointer power();
  ExpressionPointer unary(bool with_filters);
  ExpressionPointer primary();
  ExpressionPointer name_or_constant();
  ExpressionPointer number();
  ExpressionPointer list();
  ExpressionPointer map();
  ExpressionPointer postfixed(ExpressionPointer subject);
  ExpressionPointer filtered(ExpressionPointer subject);
  ExpressionPointer subscript(ExpressionPointer subject);
  ExpressionPointer filter(ExpressionPointer subject);
  ExpressionPointer test(ExpressionPointer subject);
  ExpressionPointer binary(ExpressionPointer left, ExpressionPointer (Parser::*next)());
  void arguments(Expression& call);
  ExpressionPointer make(Expression::Kind kind) const;
  void add(Expression& parent, ExpressionPointer child) const;

  // Tokens.
  const Token& token() const { return tokens_[at_]; }
  bool is(Token::Kind kind, std::string_view text) const;
  bool is_operator(std::string_view text) const { return is(Token::Kind::Operator, text); }
  bool is_name(std::string_view text) const { return is(Token::Kind::Name, text); }
  bool skip(Token::Kind kind, std::string_view text);
  bool skip_operator(std::string_view text) { return skip(Token::Kind::Operator, text); }
  bool skip_name(std::string_view text) { return skip(Token::Kind::Name, text); }
  void expect_operator(std::string_view text);
  std::string identifier();
  Problem problem(const std::string& what) const;
  Problem unexpected(const std::string& expected) const;

  std::vector<Token> tokens_;
  size_t at_ = 0, depth_ = 0, loops_ = 0, scopes_ = 0;
  size_t loop_reads_ = 0;  // how often the name "loop" occurred
  Syntax syntax_;
};

// Limits how deep parts of a template are nested.
class Nesting {
 public:
  explicit Nesting(Parser& parser);
  ~Nesting() { --parser_.depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  Parser& parser_;
};

}  // namespace lockstep::formats::jinja
