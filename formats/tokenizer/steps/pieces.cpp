#include "formats/tokenizer/steps/pieces.h"

#include <map>

namespace lockstep::formats {

Delimiter delimiter_of(const JsonPart& json, const char* key, std::optional<Delimiter> otherwise) {
  static const std::map<std::string, Delimiter> kinds = {
      {"Removed", Delimiter::Removed},
      {"Isolated", Delimiter::Isolated},
      {"MergedWithPrevious", Delimiter::MergedWithPrevious},
      {"MergedWithNext", Delimiter::MergedWithNext},
      {"Contiguous", Delimiter::Contiguous},
  };
  if (!json.has(key) && otherwise) return *otherwise;
  const auto found = kinds.find(json.text(key));
  if (found == kinds.end())
    throw json.refused(std::string(key) + " is not one of " + names_of(kinds));
  return found->second;
}

void Splitting::emit(size_t begin, size_t end) const {
  if (begin < end)
    use_(Piece{piece_.text.substr(begin, end - begin), piece_.is_start && begin == 0});
}

void Splitting::hold(size_t begin, size_t end) {
  finish();
  holds_ = true;
  begin_ = begin;
  end_ = end;
}

void Splitting::finish() {
  if (holds_) emit(begin_, end_);
  holds_ = false;
}

void Splitting::add(size_t begin, size_t end, bool is_delimiter) {
  switch (kind_) {
    case Delimiter::Removed:
      if (!is_delimiter) emit(begin, end);
      break;
    case Delimiter::Isolated: emit(begin, end); break;
    case Delimiter::MergedWithPrevious:
      if (is_delimiter && !last_delimiter_ && holds_)
        end_ = end;
      else
        hold(begin, end);
      break;
    case Delimiter::MergedWithNext:
      if (!is_delimiter && last_delimiter_) {
        end_ = end;
        finish();
      } else {
        hold(begin, end);
        if (!is_delimiter) finish();
      }
      break;
    case Delimiter::Contiguous:
      if (is_delimiter == last_delimiter_ && holds_)
        end_ = end;
      else
        hold(begin, end);
      break;
  }
  last_delimiter_ = is_delimiter;
}

}  // namespace lockstep::formats
