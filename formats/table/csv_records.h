// Splits CSV text into records and cells. No LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::formats {

struct CsvCell {
  std::string_view raw;  // without enclosing quotes
  bool quoted = false;
  bool doubled = false;  // contains doubled quotes

  // The content; stored in `memory` if it differs from `raw`.
  std::string_view text(std::string& memory) const;
};

class CsvRecords {
 public:
  CsvRecords(std::string_view text, char separator);

  // Reads the next record, skipping empty lines; false at the end.
  bool next();

  const std::vector<CsvCell>& cells() const { return cells_; }
  int64_t line() const { return line_; }  // first line of the record, 1-based
  // Why the record is invalid; empty if it is valid.
  const std::string& problem() const { return problem_; }

 private:
  void read_cell();
  void read_quoted();

  std::string_view text_;
  char separator_;
  size_t at_ = 0;
  int64_t line_ = 0, next_line_ = 1;
  std::vector<CsvCell> cells_;
  std::string problem_;
};

}  // namespace lockstep::formats
