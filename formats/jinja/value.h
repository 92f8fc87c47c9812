// The values of a Jinja template: those of JSON, undefined, and what templates make themselves
// (namespaces and macros). Lists and maps are immutable. No LibTorch.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::formats::jinja {

// An error in a template or its variables; the interpreter adds the line.
struct Problem : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Limits of a value.
constexpr size_t kMaxTextBytes = size_t{1} << 24;
constexpr size_t kMaxItems = size_t{1} << 20;  // of lists and maps, inner ones included
constexpr size_t kMaxValueDepth = 100;

class Value;
struct Statement;
using Values = std::vector<Value>;
using Members = std::vector<std::pair<std::string, Value>>;

struct Undefined {
  std::string name;  // for messages
};
struct List;
struct Map;
struct Namespace;
// A macro, or a global function.
struct Function;
struct Callable {
  const Statement* macro = nullptr;
  const Function* function = nullptr;
  bool operator==(const Callable&) const = default;
};

class Value {
 public:
  Value() : data_(Undefined{}) {}
  Value(bool value) : data_(value) {}
  Value(int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(std::string text);  // throws Problem if it is longer than kMaxTextBytes
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(Callable callable) : data_(callable) {}

  static Value none();
  static Value undefined(std::string name);
  // Throw Problem: too deep, too many items, a namespace as an item.
  static Value list(Values items, bool is_tuple = false);
  static Value map(Members members);  // of equal keys, the last counts
  static Value make_namespace(Members members);
  static Value from_json(const nlohmann::ordered_json& json, size_t depth = 0);

  template <class T>
  const T* as() const {
    return std::get_if<T>(&data_);
  }
  bool is_undefined() const { return as<Undefined>(); }
  bool is_none() const { return data_.index() == 1; }
  bool is_number() const { return as<bool>() || as<int64_t>() || as<double>(); }
  bool is_integer() const { return as<bool>() || as<int64_t>(); }
  // nullptr: of another type.
  const std::string* text() const;
  const Values* items() const;  // of a list or tuple
  bool is_tuple() const;
  const Members* members() const;  // of a map or a namespace
  Members* namespace_members() const;
  const Value* find(std::string_view key) const;  // a member, or nullptr

  double number() const;     // requires is_number()
  int64_t integer() const;   // requires is_integer()
  bool is_true() const;      // as Python's bool()
  const char* type() const;  // for messages
  // What it costs to look at all of it: bytes and items.
  size_t weight() const;
  size_t depth() const;

 private:
  using Data = std::variant<Undefined, std::nullptr_t, bool, int64_t, double,
                            std::shared_ptr<const std::string>, std::shared_ptr<const List>,
                            std::shared_ptr<const Map>, std::shared_ptr<Namespace>, Callable>;
  explicit Value(Data data) : data_(std::move(data)) {}

  Data data_;
};

struct List {
  Values items;
  bool is_tuple = false;
  size_t depth = 1, weight = 1;
};
struct Map {
  Members members;
  size_t depth = 1, weight = 1;
};
struct Namespace {
  Members members;
};

// As Python's == ; never throws.
bool equal(const Value& a, const Value& b);
// -1, 0 or 1. Throws Problem if Python could not order them.
int compare(const Value& a, const Value& b);
// As Python's len(), in code points for texts. Throws Problem.
size_t length_of(const Value& value);
// `item in container`. Throws Problem.
bool contains(const Value& container, const Value& item);
// What a loop over the value sees: items, keys, characters. Throws Problem.
Values iterate(const Value& value);

// As Python's str() and repr(); undefined is empty.
std::string text_of(const Value& value);
// As json.dumps(ensure_ascii=False). `indent`: spaces per level; -1: one line.
std::string json_of(const Value& value, int64_t indent);

}  // namespace lockstep::formats::jinja
