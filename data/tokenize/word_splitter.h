// Cuts text into the pieces that byte pairs are merged within: words with the blank before them,
// numbers, punctuation. By Oniguruma, the regular expressions of the tokenizers library.
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
  // Throws Config: no regular expression.
  explicit WordSplitter(const std::string& pattern);
  ~WordSplitter();
  WordSplitter(WordSplitter&&) noexcept;
  WordSplitter& operator=(WordSplitter&&) noexcept;

  // Calls `use` with each match in `text`, which is UTF-8, and with each piece between matches, in
  // order. Throws Config when the pattern takes too long for this text.
  void split(std::string_view text, const std::function<void(std::string_view)>& use) const;

 private:
  struct Pattern;
  std::unique_ptr<Pattern> pattern_;
};

}  // namespace lockstep::data
