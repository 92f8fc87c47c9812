#include "data/chat/chat_records.h"

#include <fmt/format.h>

#include "data/table_dataset.h"
#include "formats/table/json_lines.h"
#include "formats/unpack.h"
#include "lockstep/error.h"

namespace lockstep::data {

void ChatRecords::read(const std::string& path,
                       const std::function<void(std::string_view line)>& add) {
  for (const auto& file : table_files(path, {".jsonl", ".jsonl.gz", ".jsonl.zst", ".ndjson"}))
    formats::read_unpacked(file, [&](std::string_view text, const std::string& name) {
      formats::for_each_json_line(
          formats::without_utf8_mark(text), [&](std::string_view line, int64_t number) {
            try {
              add(line);
            } catch (const Error& error) {
              if (error.kind() != ErrorKind::Config) throw;
              skip(fmt::format("{}: line {}: {}", name, number, error.what()));
            }
          });
      return 0;
    });
}

void ChatRecords::skip(const std::string& problem) {
  if (++num_bad_ == 1) first_bad_ = problem;
  if (num_bad_ <= max_bad_) return;
  throw config_error(max_bad_ == 0 ? problem
                                   : fmt::format("{} (bad sample {}, max_bad_samples is {})",
                                                 problem, num_bad_, max_bad_));
}

std::vector<std::string> ChatRecords::warnings(const std::string& name) const {
  if (num_bad_ == 0) return {};
  return {fmt::format("{}: {} that cannot be used {} skipped; the first: {}", name,
                      num_bad_ == 1 ? "a record" : fmt::format("{} records", num_bad_),
                      num_bad_ == 1 ? "is" : "are", first_bad_)};
}

}  // namespace lockstep::data
