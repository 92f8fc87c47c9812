// The csv sink: writes every scalar as one row, for spreadsheets and pandas. Quoting follows RFC
// 4180, with "\n" as line end.
#include <fmt/format.h>

#include <charconv>

#include "lockstep/sink.h"
#include "tracking/log/csv_field.h"
#include "tracking/log/line_file.h"
#include "tracking/log/system_metric.h"
#include "tracking/sinks/file_path.h"

namespace lockstep::tracking {
namespace {

struct CsvConfig {
  std::optional<std::string> path;
};
template <class V>
void fields(V& v, CsvConfig& c) {
  v("path", c.path,
    "file to write; {id} is replaced by the ID of the entry; default: metrics.csv in the sink's "
    "directory of the run");
}

constexpr std::string_view kCsvHeader = "step,epoch,time,metric,value\n";

// The end of the row that begins at `begin`; line breaks inside quotes do not end it.
size_t csv_row_end(std::string_view text, size_t begin) {
  bool quoted = false;
  for (size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (text[i] == '\n' && !quoted) return i + 1;
  }
  return text.size();
}

// Metrics of the machine are numbered by samples, not by steps, and are not recorded again.
bool csv_is_of_system(std::string_view row) {
  for (int i = 0; i < 3; ++i) row.remove_prefix(row.find(',') + 1);  // step, epoch, time
  return is_system_metric(row.substr(row.starts_with('"') ? 1 : 0));
}

std::string csv_up_to(std::string_view text, int64_t last_step) {
  std::string kept;
  for (size_t begin = 0; begin < text.size();) {
    const auto end = csv_row_end(text, begin);
    const auto row = text.substr(begin, end - begin);
    int64_t step = 0;
    const auto parsed = std::from_chars(row.data(), row.data() + row.size(), step);
    const bool is_header = parsed.ec != std::errc();
    if (is_header || step <= last_step || csv_is_of_system(row)) kept += row;
    begin = end;
  }
  return kept;
}

class CsvSink final : public Sink {
 public:
  using Config = CsvConfig;
  CsvSink(const Config& config, const SinkContext& context)
      : config_(config), dir_(context.dir), state_(context.state) {}

  Json destination() const override { return file_destination(config_.path); }
  bool has_delivered(const RunInfo& info) const override {
    std::error_code ignored;
    return std::filesystem::exists(place(info), ignored);
  }

  void run_started(const RunInfo& info, const Json&) override {
    file_.emplace(LineFile::Paths{.file = place(info), .note = dir_ / "rewind.json"}, state_,
                  csv_up_to);
    if (file_->is_empty()) file_->append(kCsvHeader);
  }

  void scalars(const ScalarRow& row) override {
    const auto moment =
        fmt::format("{},{},{}", row.step, csv_number(row.epoch), csv_number(row.time));
    for (const auto& [name, value] : row.values)
      file_->append(fmt::format("{},{},{}\n", moment, csv_field(name), csv_number(value)));
  }

  void rewind(int64_t step) override { file_->rewind(step); }
  Json flush() override { return file_->flush(); }
  void run_finished(const RunEnd&) override {}

 private:
  std::filesystem::path place(const RunInfo& info) const {
    return sink_file(config_.path, dir_, "metrics.csv", info);
  }

  Config config_;
  std::filesystem::path dir_;
  Json state_;
  std::optional<LineFile> file_;
};

REGISTER_SINK("csv", CsvSink, "a row per value, for spreadsheets and pandas");

}  // namespace
}  // namespace lockstep::tracking
