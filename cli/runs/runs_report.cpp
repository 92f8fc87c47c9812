#include "cli/runs/runs_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "catalog/index/column_spool.h"
#include "catalog/run_catalog.h"
#include "catalog/run_list.h"
#include "cli/command_words.h"
#include "cli/runs/runs_view.h"
#include "cli/trainer_program.h"
#include "core/config/launch_sections.h"
#include "core/system/durable_file.h"
#include "dashboard/api/report.h"
#include "lockstep/error.h"

namespace lockstep::cli {

int write_report(const std::vector<std::string>& words, std::ostream& out) {
  cxxopts::Options known("lockstep runs export");
  const auto text = [] { return cxxopts::value<std::string>(); };
  known.add_options()("dir", "", text()->default_value(kRunsDir))("html", "", text());
  known.add_options(kPositional)("id", "", cxxopts::value<std::vector<std::string>>());
  known.parse_positional({"id"});
  const auto parsed = parse_words(known, words);
  if (!parsed.count("id"))
    throw config_error("lockstep runs export: missing run ID; 'lockstep runs list' lists the runs");
  const auto file = parsed["html"].as<std::string>();
  verify_output("--html", file);
  const std::filesystem::path dir = parsed["dir"].as<std::string>();
  std::vector<std::string> ids;
  for (const auto& id : parsed["id"].as<std::vector<std::string>>()) {
    auto job = catalog::find_run_directory(dir, id).filename().string();
    if (std::ranges::count(ids, job) == 0) ids.push_back(std::move(job));
  }
  catalog::ColumnSpool spool({dir, "/var/tmp", "/tmp"});
  catalog::RunCatalog catalog(std::filesystem::canonical(dir), spool,
                              catalog::CatalogReading::OnRequest);
  dashboard::Dashboard dashboard{.catalog = catalog, .actions = false, .schema = run_file_schema};
  std::vector<catalog::RunSnapshot> runs;
  for (const auto& id : ids) {
    runs.push_back(catalog.find(id));
    if (!runs.back()) throw config_error(fmt::format("run '{}' is a link: name its directory", id));
  }
  const auto html = report_html(dashboard, runs);
  write_output_file(file, html);
  out << fmt::format("{}: {:.1f} MB, opens in any browser\n", file,
                     static_cast<double>(html.size()) / 1e6);
  return 0;
}

}  // namespace lockstep::cli
