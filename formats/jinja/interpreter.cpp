// Statements.
#include "formats/jinja/interpreter.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/printable.h"

namespace lockstep::formats::jinja {
namespace {

constexpr size_t kMaxWork = size_t{1} << 24;
constexpr size_t kMaxCalls = 40;  // of macros, inside of each other
constexpr size_t kMaxDateBytes = 1024;

}  // namespace

class Interpreter::Inner {
 public:
  Inner(Interpreter& interpreter, const Scope* outer)
      : interpreter_(interpreter), before_(interpreter.scope_), scope_{outer, {}} {
    interpreter_.scope_ = &scope_;
  }
  ~Inner() { interpreter_.scope_ = before_; }
  Inner(const Inner&) = delete;
  Inner& operator=(const Inner&) = delete;

  void clear() { scope_.variables.clear(); }

 private:
  Interpreter& interpreter_;
  Scope* before_;
  Scope scope_;
};

Interpreter::Interpreter(const Syntax& syntax, const Value& variables, const std::tm* date)
    : syntax_(syntax), date_(date), root_{nullptr, *variables.members()} {}

RenderedText Interpreter::run() {
  run(syntax_.body);
  return {std::move(text_), std::move(generations_)};
}

void Interpreter::charge(size_t work) {
  work_ += work + 1;
  if (work_ > kMaxWork) throw Problem("the template takes too many steps");
}

std::string Interpreter::date_text(const std::string& format) const {
  if (!date_) throw Problem("strftime_now: no date is given");
  std::string text(kMaxDateBytes, ' ');
  text.resize(std::strftime(text.data(), text.size(), (format + ' ').c_str(), date_));
  if (text.empty()) throw Problem("strftime_now: the date is too long");
  text.pop_back();
  return text;
}

void Interpreter::write(std::string_view text) {
  charge(text.size() / 16);
  out_->append(text);
  if (out_->size() > kMaxTextBytes)
    throw Problem(fmt::format("the text is longer than {} bytes", kMaxTextBytes));
}

Interpreter::Flow Interpreter::run(const Block& block) {
  for (const auto& statement : block)
    if (const auto flow = run(*statement); flow != Flow::Next) return flow;
  return Flow::Next;
}

Interpreter::Flow Interpreter::run(const Statement& statement) {
  line_ = statement.line;
  charge(0);
  switch (statement.kind) {
    case Statement::Kind::Text: write(statement.text); break;
    case Statement::Kind::Output: write(text_of(evaluate(*statement.expressions[0]))); break;
    case Statement::Kind::If: return run_if(statement);
    case Statement::Kind::For: return run_loop(statement);
    case Statement::Kind::Set: run_set(statement); break;
    case Statement::Kind::SetMember: run_set_member(statement); break;
    case Statement::Kind::SetBlock:
      set(statement.targets[0], Value(captured(statement.bodies[0])));
      break;
    case Statement::Kind::Macro: set(statement.text, Value(Callable{.macro = &statement})); break;
    case Statement::Kind::Generation: run_generation(statement); break;
    case Statement::Kind::Break: return Flow::Break;
    case Statement::Kind::Continue: return Flow::Continue;
  }
  return Flow::Next;
}

Interpreter::Flow Interpreter::run_if(const Statement& statement) {
  for (size_t i = 0; i < statement.bodies.size(); ++i)
    if (i >= statement.expressions.size() || evaluate(*statement.expressions[i]).is_true())
      return run(statement.bodies[i]);
  return Flow::Next;
}

namespace {

Value loop_state(const Values& items, size_t i) {
  const auto number = [](size_t value) { return Value(static_cast<int64_t>(value)); };
  Members state = {{"index", number(i + 1)},
                   {"index0", number(i)},
                   {"revindex", number(items.size() - i)},
                   {"revindex0", number(items.size() - i - 1)},
                   {"first", Value(i == 0)},
                   {"last", Value(i + 1 == items.size())},
                   {"length", number(items.size())}};
  if (i > 0) state.emplace_back("previtem", items[i - 1]);
  if (i + 1 < items.size()) state.emplace_back("nextitem", items[i + 1]);
  return Value::map(std::move(state));
}

}  // namespace

Interpreter::Flow Interpreter::run_loop(const Statement& statement) {
  auto items = iterate(evaluate(*statement.expressions[0]));
  charge(items.size());
  Inner inner(*this, scope_);
  if (statement.expressions.size() > 1)
    std::erase_if(items, [&](const Value& value) {
      inner.clear();
      assign(statement.targets, value);
      return !evaluate(*statement.expressions[1]).is_true();
    });
  for (size_t i = 0; i < items.size(); ++i) {
    inner.clear();
    assign(statement.targets, items[i]);
    if (statement.uses_loop) set("loop", loop_state(items, i));
    if (run(statement.bodies[0]) == Flow::Break) break;
  }
  inner.clear();
  if (items.empty() && statement.bodies.size() > 1) return run(statement.bodies[1]);
  return Flow::Next;
}

void Interpreter::set(const std::string& name, Value value) {
  auto& variables = scope_->variables;
  const auto found =
      std::ranges::find_if(variables, [&](const auto& one) { return one.first == name; });
  if (found == variables.end())
    variables.emplace_back(name, std::move(value));
  else
    found->second = std::move(value);
}

void Interpreter::assign(const std::vector<std::string>& targets, const Value& value) {
  if (targets.size() == 1) return set(targets[0], value);
  const auto parts = iterate(value);
  if (parts.size() != targets.size())
    throw Problem(fmt::format("{} values for {} names", parts.size(), targets.size()));
  for (size_t i = 0; i < targets.size(); ++i) set(targets[i], parts[i]);
}

void Interpreter::run_set(const Statement& statement) {
  assign(statement.targets, evaluate(*statement.expressions[0]));
}

void Interpreter::run_set_member(const Statement& statement) {
  const auto* space = find(statement.targets[0]);
  auto* members = space ? space->namespace_members() : nullptr;
  if (!members)
    throw Problem(fmt::format("'{}' is not a namespace", printable(statement.targets[0])));
  const auto value = evaluate(*statement.expressions[0]);
  // Namespaces in namespaces could be cycles.
  if (value.namespace_members()) throw Problem("a namespace cannot be stored in another value");
  const auto found = std::ranges::find_if(
      *members, [&](const auto& member) { return member.first == statement.targets[1]; });
  if (found == members->end())
    members->emplace_back(statement.targets[1], value);
  else
    found->second = value;
}

void Interpreter::run_generation(const Statement& statement) {
  const auto begin = out_->size();
  {
    const Inner inner(*this, scope_);
    run(statement.bodies[0]);
  }
  if (out_ == &text_) generations_.push_back({begin, out_->size()});
}

std::string Interpreter::captured(const Block& block) {
  std::string text;
  const Inner inner(*this, scope_);
  auto* before = std::exchange(out_, &text);
  try {
    run(block);
  } catch (...) {
    out_ = before;
    throw;
  }
  out_ = before;
  return text;
}

Value Interpreter::call_macro(const Statement& macro, const Values& plain, const Members& named) {
  if (++calls_ > kMaxCalls) throw Problem("macros call each other too deeply");
  if (plain.size() > macro.targets.size())
    throw Problem(
        fmt::format("macro '{}' has {} parameters", printable(macro.text), macro.targets.size()));
  for (const auto& argument : named)
    if (std::ranges::find(macro.targets, argument.first) == macro.targets.end())
      throw Problem(fmt::format("macro '{}' has no parameter '{}'", printable(macro.text),
                                printable(argument.first)));
  const Inner inner(*this, &root_);
  for (size_t i = 0; i < macro.targets.size(); ++i) {
    const auto& name = macro.targets[i];
    const auto given =
        std::ranges::find_if(named, [&](const auto& argument) { return argument.first == name; });
    if (i < plain.size())
      set(name, plain[i]);
    else if (given != named.end())
      set(name, given->second);
    else
      set(name, macro.expressions[i] ? evaluate(*macro.expressions[i]) : Value::undefined(name));
  }
  auto text = captured(macro.bodies[0]);
  --calls_;
  return Value(std::move(text));
}

}  // namespace lockstep::formats::jinja
