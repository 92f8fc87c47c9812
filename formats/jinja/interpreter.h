// Renders a parsed template once. Only files of formats/ include this.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "formats/jinja/functions.h"
#include "formats/jinja/jinja_template.h"
#include "formats/jinja/syntax.h"

namespace lockstep::formats::jinja {

class Interpreter {
 public:
  // `variables`: a map. `date`: of strftime_now; may be nullptr.
  Interpreter(const Syntax& syntax, const Value& variables, const std::tm* date);

  // Throws Problem.
  RenderedText run();
  int64_t line() const { return line_; }  // where it is, for messages

  // For functions.
  Value run(const Function& function, const Value& subject, const Values& plain,
            const Members& named);
  // Counts work, in steps of about 16 bytes. Throws Problem if it is too much.
  void charge(size_t work);
  std::string date_text(const std::string& format) const;

 private:
  enum class Flow { Next, Break, Continue };
  struct Scope {
    const Scope* outer;
    Members variables;
  };
  class Inner;  // a scope, while it exists

  // Statements.
  Flow run(const Block& block);
  Flow run(const Statement& statement);
  Flow run_if(const Statement& statement);
  Flow run_loop(const Statement& statement);
  void run_set(const Statement& statement);
  void run_set_member(const Statement& statement);
  void run_generation(const Statement& statement);
  std::string captured(const Block& block);
  Value call_macro(const Statement& macro, const Values& plain, const Members& named);
  void assign(const std::vector<std::string>& targets, const Value& value);
  void set(const std::string& name, Value value);
  void write(std::string_view text);

  // Expressions.
  Value evaluate(const Expression& expression);
  Value list(const Expression& expression);
  Value map(const Expression& expression);
  Value item(const Expression& expression);
  Value slice(const Expression& expression);
  Value call(const Expression& expression);
  Value arithmetic(const Expression& expression);
  Value comparison(const Expression& expression);
  Value applied(const Expression& expression);
  Values plain_arguments(const Expression& expression);
  Members named_arguments(const Expression& expression);
  const Value* find(const std::string& name) const;

  const Syntax& syntax_;
  const std::tm* date_;
  Scope root_;
  Scope* scope_ = &root_;
  std::string text_;
  std::string* out_ = &text_;
  std::vector<TextSpan> generations_;
  size_t work_ = 0, calls_ = 0;
  int64_t line_ = 1;
};

}  // namespace lockstep::formats::jinja
