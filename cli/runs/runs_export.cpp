#include <fmt/format.h>

#include <ostream>

#include "catalog/run_logs.h"
#include "cli/runs/runs_view.h"
#include "lockstep/error.h"
#include "tracking/log/csv_field.h"
#include "tracking/log/log_tail.h"

namespace lockstep::cli {
namespace {

// Calls `visit` with every value of a log. An unreadable log has none; print_notes()
// reports it.
template <class Visit>
void visit_log(const std::filesystem::path& path, const Visit& visit) {
  tracking::LogTail log(path);
  try {
    while (const auto record = log.next())
      if (const auto* row = std::get_if<tracking::LoggedRow>(&*record))
        for (const auto& [key, value] : row->values) visit(log.keys()[key], *row, value);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) throw;
  }
}

template <class Visit>
void visit_values(const std::vector<catalog::RunEntry>& entries, const Visit& visit) {
  for (const auto& entry : entries)
    for (const auto* source : {entry.rank, entry.node})
      if (source)
        visit_log(log_path(entry.run->dir, *source),
                  [&](const std::string& name, const tracking::LoggedRow& row, double value) {
                    visit(name, row, value, entry.info().rank);
                  });
}

}  // namespace

void verify_output(const std::string& option, const std::filesystem::path& file) {
  std::error_code error;
  const auto folder = file.parent_path();
  const auto refuse = [&](const std::string& problem) {
    throw config_error(
        fmt::format("lockstep runs export: {} {}: {}", option, file.string(), problem));
  };
  if (file.empty()) refuse("expected a file, got nothing");
  if (std::filesystem::is_directory(file, error)) refuse("is a directory");
  if (!folder.empty() && !std::filesystem::is_directory(folder, error))
    refuse(fmt::format("the directory {} does not exist", folder.string()));
}

void export_csv(const std::vector<catalog::RunEntry>& entries, std::ostream& out) {
  out << "metric,step,time,value,rank\n";
  visit_values(entries, [&](const std::string& name, const tracking::LoggedRow& row, double value,
                            int rank) {
    out << fmt::format("{},{},{:.6f},{},{}\n", tracking::csv_field(name), row.step, row.time,
                       tracking::csv_number(value), rank);
  });
}

void export_jsonl(const std::vector<catalog::RunEntry>& entries, std::ostream& out) {
  visit_values(entries, [&](const std::string& name, const tracking::LoggedRow& row, double value,
                            int rank) {
    out << catalog::to_text({{"metric", name},
                             {"step", row.step},
                             {"time", catalog::number_value(row.time)},
                             {"value", catalog::number_value(value)},
                             {"rank", rank}})
        << "\n";
  });
}

}  // namespace lockstep::cli
