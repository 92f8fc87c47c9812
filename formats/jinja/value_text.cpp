// Values as text: Python's str() and repr(), and JSON.
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "formats/jinja/characters.h"
#include "formats/jinja/value.h"

namespace lockstep::formats::jinja {
namespace {

// As Python's repr() of a float: the shortest digits that read back as the same number.
std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[32];
  const auto ended =
      std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific);
  const std::string_view digits(buffer, static_cast<size_t>(ended.ptr - buffer));
  int exponent = 0;
  const auto mark = digits.find('e');
  const auto* first = digits.data() + mark + (digits[mark + 1] == '+' ? 2 : 1);
  std::from_chars(first, digits.data() + digits.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(digits);
  const auto plain =
      std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::fixed);
  std::string text(buffer, plain.ptr);
  return text.find('.') == text.npos ? text + ".0" : text;
}

class Writer {
 public:
  enum class Kind { Python, Json };
  Writer(Kind kind, int64_t indent) : is_json_(kind == Kind::Json), indent_(indent) {}

  void write(const Value& value, int64_t level) {
    if (value.text()) {
      is_json_ ? write_json(*value.text()) : write_python(*value.text());
    } else if (value.items()) {
      const bool is_tuple = value.is_tuple() && !is_json_;
      write_all(*value.items(), level, is_tuple ? "()" : "[]",
                [&](const Value& item) { write(item, level + 1); });
      if (is_tuple && value.items()->size() == 1) out_.insert(out_.size() - 1, ",");
    } else if (value.members() && !value.namespace_members()) {
      write_all(*value.members(), level, "{}", [&](const auto& member) {
        is_json_ ? write_json(member.first) : write_python(member.first);
        out_ += ": ";
        write(member.second, level + 1);
      });
    } else {
      write_scalar(value);
    }
    if (out_.size() > kMaxTextBytes)
      throw Problem(fmt::format("a text is longer than {} bytes", kMaxTextBytes));
  }

  std::string take() { return std::move(out_); }

 private:
  void write_scalar(const Value& value) {
    if (value.is_none())
      out_ += is_json_ ? "null" : "None";
    else if (const auto* flag = value.as<bool>())
      out_ += is_json_ ? (*flag ? "true" : "false") : (*flag ? "True" : "False");
    else if (const auto* integer = value.as<int64_t>())
      out_ += std::to_string(*integer);
    else if (const auto* real = value.as<double>())
      out_ += json_or(*real);
    else if (is_json_)
      throw Problem(fmt::format("{} cannot be written as JSON", value.type()));
    else
      out_ += value.is_undefined() ? "Undefined" : fmt::format("<{}>", value.type());
  }

  std::string json_or(double number) const {
    if (is_json_ && std::isnan(number)) return "NaN";
    if (is_json_ && std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return float_text(number);
  }

  template <class Items, class Write>
  void write_all(const Items& items, int64_t level, const char* brackets, const Write& one) {
    out_ += brackets[0];
    bool is_first = true;
    for (const auto& item : items) {
      if (!is_first) out_ += indent_ < 0 ? ", " : ",";
      is_first = false;
      new_line(level + 1);
      one(item);
    }
    if (!is_first) new_line(level);
    out_ += brackets[1];
  }

  void new_line(int64_t level) {
    if (indent_ < 0) return;
    out_ += '\n';
    out_.append(static_cast<size_t>(indent_ * level), ' ');
  }

  void write_json(std::string_view text) {
    out_ += '"';
    for (const char c : text) {
      switch (c) {
        case '"': out_ += "\\\""; break;
        case '\\': out_ += "\\\\"; break;
        case '\n': out_ += "\\n"; break;
        case '\r': out_ += "\\r"; break;
        case '\t': out_ += "\\t"; break;
        case '\b': out_ += "\\b"; break;
        case '\f': out_ += "\\f"; break;
        default:
          if (static_cast<unsigned char>(c) < 0x20)
            out_ += fmt::format("\\u{:04x}", static_cast<int>(c));
          else
            out_ += c;
      }
    }
    out_ += '"';
  }

  void write_python(std::string_view text) {
    const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
    out_ += quote;
    for (const char c : text) {
      if (c == quote || c == '\\')
        (out_ += '\\') += c;
      else if (c == '\n')
        out_ += "\\n";
      else if (c == '\r')
        out_ += "\\r";
      else if (c == '\t')
        out_ += "\\t";
      else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
        out_ += fmt::format("\\x{:02x}", static_cast<int>(c));
      else
        out_ += c;
    }
    out_ += quote;
  }

  std::string out_;
  bool is_json_;
  int64_t indent_;
};

}  // namespace

std::string text_of(const Value& value) {
  if (value.text()) return *value.text();
  if (value.is_undefined()) return {};
  Writer writer(Writer::Kind::Python, -1);
  writer.write(value, 0);
  return writer.take();
}

std::string json_of(const Value& value, int64_t indent) {
  Writer writer(Writer::Kind::Json, indent);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace lockstep::formats::jinja
