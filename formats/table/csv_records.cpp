#include "formats/table/csv_records.h"

#include <algorithm>

namespace lockstep::formats {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

std::string_view CsvCell::text(std::string& memory) const {
  if (!doubled) return raw;
  memory.clear();
  for (size_t i = 0; i < raw.size(); ++i) {
    memory += raw[i];
    if (raw[i] == '"') ++i;
  }
  return memory;
}

CsvRecords::CsvRecords(std::string_view text, char separator) : text_(text), separator_(separator) {
  if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
}

bool CsvRecords::next() {
  while (at_ < text_.size() && (text_[at_] == '\n' || text_.substr(at_, 2) == "\r\n")) {
    at_ += text_[at_] == '\n' ? 1 : 2;
    ++next_line_;
  }
  cells_.clear();
  problem_.clear();
  line_ = next_line_;
  if (at_ >= text_.size()) return false;
  for (;;) {
    read_cell();
    if (at_ >= text_.size()) return true;
    if (text_[at_++] == '\n') break;
    // A separator; at the end of the text, it is followed by an empty cell.
    if (at_ == text_.size()) {
      cells_.push_back({});
      return true;
    }
  }
  ++next_line_;
  return true;
}

// Advances at_ to the separator or line break after the cell, or to the end.
void CsvRecords::read_cell() {
  if (at_ < text_.size() && text_[at_] == '"') return read_quoted();
  auto end = at_;
  while (end < text_.size() && text_[end] != separator_ && text_[end] != '\n') ++end;
  auto raw = text_.substr(at_, end - at_);
  at_ = end;
  const bool ends_line = end == text_.size() || text_[end] == '\n';
  if (ends_line && raw.ends_with('\r')) raw.remove_suffix(1);
  cells_.push_back({.raw = raw});
}

void CsvRecords::read_quoted() {
  CsvCell cell{.quoted = true};
  const auto begin = ++at_;
  for (;; at_ += 2) {
    at_ = text_.find('"', at_);
    if (at_ == text_.npos) {
      // The end of the record is unknown: treat its first line as the record.
      const auto line_end = std::min(text_.find('\n', begin), text_.size());
      problem_ = "a quote is not closed";
      cells_.push_back({.raw = text_.substr(begin, line_end - begin)});
      at_ = line_end;
      return;
    }
    if (at_ + 1 >= text_.size() || text_[at_ + 1] != '"') break;
    cell.doubled = true;
  }
  cell.raw = text_.substr(begin, at_ - begin);
  next_line_ += std::count(cell.raw.begin(), cell.raw.end(), '\n');
  cells_.push_back(cell);
  ++at_;
  if (text_.substr(at_, 2) == "\r\n" || text_.substr(at_) == "\r") ++at_;
  if (at_ >= text_.size() || text_[at_] == separator_ || text_[at_] == '\n') return;
  problem_ = "text follows a quoted cell";
  while (at_ < text_.size() && text_[at_] != separator_ && text_[at_] != '\n') ++at_;
}

}  // namespace lockstep::formats
