#include "formats/jinja/tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "core/printable.h"
#include "formats/jinja/characters.h"
#include "formats/jinja/value.h"

namespace lockstep::formats::jinja {
namespace {

constexpr std::string_view kBlanks = " \t\n\r\v\f";
constexpr std::string_view kTags = "{%#";
constexpr std::array<std::string_view, 6> kLongOperators = {"==", "!=", ">=", "<=", "//", "**"};
constexpr std::string_view kOperators = "+-/*%~[](){}<>=.:|,";

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

std::string with_plain_newlines(std::string_view source) {
  std::string plain;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    plain += source[i] == '\r' ? '\n' : source[i];
  }
  if (plain.ends_with('\n')) plain.pop_back();
  return plain;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_newlines(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_text();
    add(Token::Kind::End, "");
    return std::move(tokens_);
  }

 private:
  Problem problem(const std::string& what) const {
    return Problem(fmt::format("line {}: {}", line_, what));
  }

  std::string_view rest() const { return std::string_view(source_).substr(at_); }

  void add(Token::Kind kind, std::string_view text) {
    tokens_.push_back({kind, std::string(text), line_});
  }

  void advance(size_t count) {
    line_ += std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                        source_.begin() + static_cast<ptrdiff_t>(at_ + count), '\n');
    at_ += count;
  }

  // Text up to a tag, then the tag.
  void read_text() {
    size_t begin = at_;
    while (true) {
      begin = source_.find('{', begin);
      if (begin == source_.npos || begin + 1 >= source_.size()) begin = source_.size();
      if (begin == source_.size() || kTags.find(source_[begin + 1]) != kTags.npos) break;
      ++begin;
    }
    auto text = rest().substr(0, begin - at_);
    if (begin == source_.size()) {
      if (!text.empty()) add(Token::Kind::Text, text);
      return advance(text.size());
    }
    const char kind = source_[begin + 1];
    const char mark = begin + 2 < source_.size() ? source_[begin + 2] : ' ';
    const auto size = text.size();
    if (mark == '-')
      text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
    else if (kind != '{' && mark != '+')
      text = without_indent(text);
    if (!text.empty()) add(Token::Kind::Text, text);
    advance(size + 2 + (mark == '-' || mark == '+' ? 1 : 0));
    if (kind == '#') return skip_comment();
    add(kind == '{' ? Token::Kind::OutputBegin : Token::Kind::BlockBegin, "");
    read_tag(kind == '{' ? "}}" : "%}");
  }

  std::string_view without_indent(std::string_view text) const {
    const auto line = text.rfind('\n') == text.npos ? 0 : text.rfind('\n') + 1;
    const bool starts_line = line > 0 || at_ == 0 || source_[at_ - 1] == '\n';
    const bool is_indent = text.substr(line).find_first_not_of(kBlanks) == text.npos;
    return starts_line && is_indent ? text.substr(0, line) : text;
  }

  void skip_comment() {
    const auto end = rest().find("#}");
    if (end == std::string_view::npos) throw problem("a comment is not closed with #}");
    const char mark = end > 0 ? rest()[end - 1] : ' ';
    advance(end + 2);
    skip_after(mark, true);
  }

  void skip_after(char mark, bool is_block) {
    if (mark == '-') {
      const auto kept = rest().find_first_not_of(kBlanks);
      advance(kept == std::string_view::npos ? rest().size() : kept);
    } else if (is_block && mark != '+' && rest().starts_with('\n')) {
      advance(1);
    }
  }

  void read_tag(std::string_view end) {
    size_t open = 0;  // brackets
    while (true) {
      const auto blanks = rest().find_first_not_of(kBlanks);
      if (blanks == std::string_view::npos)
        throw problem(fmt::format("a tag is not closed with {}", end));
      advance(blanks);
      const char mark = rest().front();
      const bool has_mark = (mark == '-' || mark == '+') && rest().substr(1).starts_with(end);
      if (open == 0 && (has_mark || rest().starts_with(end))) {
        add(end == "}}" ? Token::Kind::OutputEnd : Token::Kind::BlockEnd, "");
        advance(end.size() + (has_mark ? 1 : 0));
        return skip_after(has_mark ? mark : ' ', end == "%}");
      }
      read_token(open);
    }
  }

  void read_token(size_t& open) {
    const auto text = rest();
    const char c = text.front();
    if (is_name_start(c)) {
      const auto end = std::ranges::find_if_not(text, is_name_part) - text.begin();
      add(Token::Kind::Name, text.substr(0, static_cast<size_t>(end)));
      return advance(static_cast<size_t>(end));
    }
    if (is_digit(c)) return read_number();
    if (c == '\'' || c == '"') return read_string();
    for (const auto operation : kLongOperators)
      if (text.starts_with(operation)) {
        add(Token::Kind::Operator, operation);
        return advance(2);
      }
    if (kOperators.find(c) == kOperators.npos)
      throw problem(fmt::format("unexpected '{}'", printable(characters_of(text.substr(0, 4))[0])));
    if (std::string_view("([{").find(c) != std::string_view::npos) ++open;
    if (std::string_view(")]}").find(c) != std::string_view::npos && open > 0) --open;
    add(Token::Kind::Operator, text.substr(0, 1));
    advance(1);
  }

  void read_number() {
    const auto text = rest();
    size_t end = 0;
    const auto digits = [&] {
      while (end < text.size() && (is_digit(text[end]) || text[end] == '_')) ++end;
    };
    digits();
    bool is_float = false;
    if (end + 1 < text.size() && text[end] == '.' && is_digit(text[end + 1])) {
      is_float = true;
      ++end;
      digits();
    }
    if (end + 1 < text.size() && (text[end] == 'e' || text[end] == 'E')) {
      const size_t sign = text[end + 1] == '+' || text[end + 1] == '-' ? 1 : 0;
      if (end + 1 + sign < text.size() && is_digit(text[end + 1 + sign])) {
        is_float = true;
        end += 1 + sign;
        digits();
      }
    }
    std::string plain;
    std::ranges::copy_if(text.substr(0, end), std::back_inserter(plain),
                         [](char c) { return c != '_'; });
    add(is_float ? Token::Kind::Float : Token::Kind::Integer, plain);
    advance(end);
  }

  void read_string() {
    const auto text = rest();
    size_t end = 1;
    while (end < text.size() && text[end] != text[0]) end += text[end] == '\\' ? 2 : 1;
    if (end >= text.size()) throw problem("a string is not closed");
    add(Token::Kind::String, unescaped(text.substr(1, end - 1)));
    advance(end + 1);
  }

  // As Python's unicode-escape.
  std::string unescaped(std::string_view text) const {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\' || i + 1 == text.size()) {
        out += text[i];
        continue;
      }
      const char c = text[++i];
      constexpr std::string_view kShort = "abfnrtv\\'\"0", kMeaning("\a\b\f\n\r\t\v\\'\"\0", 11);
      if (const auto at = kShort.find(c); at != kShort.npos) {
        out += kMeaning[at];
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        out += encoded(code_point(text.substr(i + 1, digits), digits));
        i += digits;
      } else if (c != '\n') {
        (out += '\\') += c;
      }
    }
    return out;
  }

  uint32_t code_point(std::string_view digits, size_t expected) const {
    uint32_t value = 0;
    for (const char c : digits) {
      if (!std::isxdigit(static_cast<unsigned char>(c))) expected = 0;
      value = value * 16 + static_cast<uint32_t>(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    if (digits.size() != expected || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
      throw problem("a string has an invalid escape");
    return value;
  }

  std::string source_;
  size_t at_ = 0;
  int64_t line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source) { return Lexer(source).run(); }

}  // namespace lockstep::formats::jinja
