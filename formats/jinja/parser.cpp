// Tags.
#include "formats/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/printable.h"

namespace lockstep::formats::jinja {
namespace {

constexpr size_t kMaxNesting = 200;
constexpr const char* kTagNames = "if, for, set, macro, generation, break and continue";

}  // namespace

Nesting::Nesting(Parser& parser) : parser_(parser) {
  if (++parser_.depth_ > kMaxNesting) {
    --parser_.depth_;
    throw parser.problem(fmt::format("more than {} levels of nesting", kMaxNesting));
  }
}

Syntax Parser::run() {
  syntax_.body = block({});
  return std::move(syntax_);
}

bool Parser::is(Token::Kind kind, std::string_view text) const {
  return token().kind == kind && token().text == text;
}

bool Parser::skip(Token::Kind kind, std::string_view text) {
  if (!is(kind, text)) return false;
  ++at_;
  return true;
}

void Parser::expect_operator(std::string_view text) {
  if (!skip_operator(text)) throw unexpected(fmt::format("'{}'", text));
}

std::string Parser::identifier() {
  if (token().kind != Token::Kind::Name) throw unexpected("a name");
  return tokens_[at_++].text;
}

Problem Parser::problem(const std::string& what) const {
  return Problem(fmt::format("line {}: {}", token().line, what));
}

Problem Parser::unexpected(const std::string& expected) const {
  const auto found = [&]() -> std::string {
    switch (token().kind) {
      case Token::Kind::Text: return "text";
      case Token::Kind::BlockBegin: return "a tag";
      case Token::Kind::OutputBegin: return "{{";
      case Token::Kind::BlockEnd:
      case Token::Kind::OutputEnd: return "the end of the tag";
      case Token::Kind::End: return "the end of the template";
      default: return "'" + printable(token().text) + "'";
    }
  }();
  return problem(fmt::format("expected {}, got {}", expected, found));
}

std::unique_ptr<Statement> Parser::make(Statement::Kind kind) const {
  return std::make_unique<Statement>(Statement{.kind = kind, .line = token().line});
}

// Statements up to a tag of `ends`, whose name is the next token; without ends, all.
Block Parser::block(std::initializer_list<std::string_view> ends) {
  const Nesting nesting(*this);
  Block block;
  while (token().kind != Token::Kind::End) {
    if (token().kind == Token::Kind::Text) {
      block.push_back(make(Statement::Kind::Text));
      block.back()->text = std::move(tokens_[at_++].text);
    } else if (token().kind == Token::Kind::OutputBegin) {
      ++at_;
      block.push_back(make(Statement::Kind::Output));
      block.back()->expressions.push_back(tuple());
      if (token().kind != Token::Kind::OutputEnd) throw unexpected("'}}'");
      ++at_;
    } else {
      ++at_;  // BlockBegin
      if (token().kind == Token::Kind::Name && std::ranges::find(ends, token().text) != ends.end())
        return block;
      block.push_back(statement());
    }
  }
  if (ends.size() > 0)
    throw problem(fmt::format("a tag '{}' is missing", std::data(ends)[ends.size() - 1]));
  return block;
}

void Parser::finish_tag() {
  if (token().kind != Token::Kind::BlockEnd) throw unexpected("'%}'");
  ++at_;
}

void Parser::end_of(std::string_view tag) {
  if (!skip_name(tag)) throw unexpected(fmt::format("'{}'", tag));
  finish_tag();
}

std::unique_ptr<Statement> Parser::statement() {
  if (is_name("if")) return if_statement();
  if (is_name("for")) return for_statement();
  if (is_name("set")) return set_statement();
  if (is_name("macro")) return macro_statement();
  if (is_name("generation")) return generation_statement();
  if (is_name("break")) return jump_statement(Statement::Kind::Break);
  if (is_name("continue")) return jump_statement(Statement::Kind::Continue);
  throw unexpected(fmt::format("a tag ({} are supported)", kTagNames));
}

std::unique_ptr<Statement> Parser::if_statement() {
  auto statement = make(Statement::Kind::If);
  ++at_;
  while (true) {
    statement->expressions.push_back(tuple());
    finish_tag();
    statement->bodies.push_back(block({"elif", "else", "endif"}));
    if (!skip_name("elif")) break;
  }
  if (skip_name("else")) {
    finish_tag();
    statement->bodies.push_back(block({"endif"}));
  }
  end_of("endif");
  return statement;
}

std::unique_ptr<Statement> Parser::for_statement() {
  auto statement = make(Statement::Kind::For);
  ++at_;
  const bool has_brackets = skip_operator("(");
  do statement->targets.push_back(identifier());
  while (skip_operator(","));
  if (has_brackets) expect_operator(")");
  if (!skip_name("in")) throw unexpected("'in'");
  statement->expressions.push_back(disjunction());
  if (skip_name("if")) statement->expressions.push_back(expression());
  if (is_name("recursive")) throw problem("recursive loops are not supported");
  finish_tag();
  const auto reads = loop_reads_;
  ++loops_;
  ++scopes_;
  statement->bodies.push_back(block({"else", "endfor"}));
  --loops_;
  statement->uses_loop = loop_reads_ != reads;
  if (skip_name("else")) {
    finish_tag();
    statement->bodies.push_back(block({"endfor"}));
  }
  --scopes_;
  end_of("endfor");
  return statement;
}

std::unique_ptr<Statement> Parser::set_statement() {
  auto statement = make(Statement::Kind::Set);
  ++at_;
  do statement->targets.push_back(identifier());
  while (skip_operator(","));
  if (statement->targets.size() == 1 && skip_operator(".")) {
    statement->kind = Statement::Kind::SetMember;
    statement->targets.push_back(identifier());
  }
  if (skip_operator("=")) {
    statement->expressions.push_back(tuple());
    finish_tag();
    return statement;
  }
  if (statement->targets.size() > 1 || token().kind != Token::Kind::BlockEnd)
    throw unexpected("'='");
  statement->kind = Statement::Kind::SetBlock;
  finish_tag();
  ++scopes_;
  statement->bodies.push_back(block({"endset"}));
  --scopes_;
  end_of("endset");
  return statement;
}

std::unique_ptr<Statement> Parser::macro_statement() {
  if (scopes_ > 0) throw problem("a macro inside of a loop, macro or block is not supported");
  auto statement = make(Statement::Kind::Macro);
  ++at_;
  statement->text = identifier();
  expect_operator("(");
  while (!skip_operator(")")) {
    if (!statement->targets.empty()) expect_operator(",");
    statement->targets.push_back(identifier());
    statement->expressions.push_back(skip_operator("=") ? expression() : nullptr);
  }
  finish_tag();
  ++scopes_;
  const auto loops = std::exchange(loops_, 0);
  statement->bodies.push_back(block({"endmacro"}));
  loops_ = loops;
  --scopes_;
  end_of("endmacro");
  return statement;
}

std::unique_ptr<Statement> Parser::generation_statement() {
  auto statement = make(Statement::Kind::Generation);
  ++at_;
  finish_tag();
  syntax_.has_generation = true;
  // Jinja makes it a block: variables that are set in it end with it, and loops do not cross it.
  ++scopes_;
  const auto loops = std::exchange(loops_, 0);
  statement->bodies.push_back(block({"endgeneration"}));
  loops_ = loops;
  --scopes_;
  end_of("endgeneration");
  return statement;
}

std::unique_ptr<Statement> Parser::jump_statement(Statement::Kind kind) {
  if (loops_ == 0) throw problem(fmt::format("'{}' outside of a loop", token().text));
  auto statement = make(kind);
  ++at_;
  finish_tag();
  return statement;
}

Syntax parse_syntax(std::string_view source) { return Parser(tokens_of(source)).run(); }

}  // namespace lockstep::formats::jinja
