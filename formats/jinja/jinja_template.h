// Templates in the language Jinja, as far as the chat templates of language models use it: parsed
// once, rendered many times. Differences from Jinja are errors, not other texts. White space is
// controlled as transformers sets it (trim_blocks, lstrip_blocks). No LibTorch.
#pragma once

#include <cstddef>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/jinja/value.h"

namespace lockstep::formats::jinja {

struct Syntax;

// Bytes [begin, end) of a text.
struct TextSpan {
  size_t begin = 0, end = 0;
  bool operator==(const TextSpan&) const = default;
};

struct RenderedText {
  std::string text;
  std::vector<TextSpan> generations;  // what {% generation %} marks, in order
};

// Thread: const, may be used by several threads at once.
class Template {
 public:
  // Parses untrusted text. `name`: for messages. Throws Config, naming the line.
  Template(std::string_view source, std::string name);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) = delete;

  // `variables`: a map. `date`: what strftime_now() formats. Throws Config, naming the line: an
  // error in the template, raise_exception(), a loop or text that exceeds the limits (about 16
  // million steps, 16 MiB).
  RenderedText render(const Value& variables, const std::optional<std::tm>& date = {}) const;

  bool has_generation() const;  // whether it has {% generation %} marks
  bool uses_date() const;       // whether it calls strftime_now()

 private:
  std::string name_;
  std::unique_ptr<const Syntax> syntax_;
};

}  // namespace lockstep::formats::jinja
