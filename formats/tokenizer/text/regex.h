// Regular expressions of Oniguruma, as in the tokenizers library.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::formats {

// Thread-safe.
class Regex {
 public:
  // Throws Config: not a valid regular expression.
  explicit Regex(const std::string& pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // Iterates over the matches in a text, from left to right. An empty match that directly follows
  // another match is not returned.
  class Matches {
   public:
    Matches(const Regex& regex, std::string_view text) : regex_(regex), text_(text) {}
    // Finds the next match, [begin, end); false if there is none. Throws Config if the search takes
    // too long on this text.
    bool next(size_t& begin, size_t& end);

   private:
    const Regex& regex_;
    std::string_view text_;
    size_t from_ = 0, last_ = std::string_view::npos;
  };

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace lockstep::formats
