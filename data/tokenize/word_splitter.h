// Splits text into the pieces within which byte pairs are merged: words with the space before them,
// numbers, punctuation. Uses Oniguruma, like the regular expressions of the tokenizers library.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep::data {

// The pattern of GPT-2.
extern const char* const kGpt2Pattern;

// Thread: one at a time.
class WordSplitter {
 public:
  // Throws Config: not a valid regular expression.
  explicit WordSplitter(const std::string& pattern);
  ~WordSplitter();
  WordSplitter(WordSplitter&&) noexcept;
  WordSplitter& operator=(WordSplitter&&) noexcept;

  // Calls `use` for each match in `text`, which is UTF-8, and for each piece between matches, in
  // order. Throws Config if the pattern takes too long on this text.
  void split(std::string_view text, const std::function<void(std::string_view)>& use) const;

 private:
  struct Pattern;
  std::unique_ptr<Pattern> pattern_;
};

}  // namespace lockstep::data
