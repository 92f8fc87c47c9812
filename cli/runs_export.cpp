#include <fmt/format.h>

#include <ostream>

#include "cli/runs_view.h"

namespace lockstep {
namespace {

// RFC 4180.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

template <class Visit>
void visit_values(const std::vector<RunRecord>& records, const Visit& visit) {
  for (const auto& record : records) {
    for (const auto& path : {record.log, record.node_log}) {
      if (path.empty()) continue;
      const auto log = read_event_log(path);
      for (const auto& row : log.rows)
        for (const auto& [key, value] : row.values)
          visit(log.keys[key], row, value, record.info.rank);
    }
  }
}

}  // namespace

void export_csv(const std::vector<RunRecord>& records, std::ostream& out) {
  out << "metric,step,time,value,rank\n";
  visit_values(records, [&](const std::string& name, const LoggedRow& row, double value, int rank) {
    out << fmt::format("{},{},{:.6f},{},{}\n", csv_field(name), row.step, row.time, value, rank);
  });
}

void export_jsonl(const std::vector<RunRecord>& records, std::ostream& out) {
  visit_values(records, [&](const std::string& name, const LoggedRow& row, double value, int rank) {
    out << json_text({{"metric", name},
                      {"step", row.step},
                      {"time", number_json(row.time)},
                      {"value", number_json(value)},
                      {"rank", rank}},
                     -1)
        << "\n";
  });
}

}  // namespace lockstep
