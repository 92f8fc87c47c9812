// `lockstep doctor`: checks whether this machine is ready to train.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "cli/command_words.h"
#include "cli/commands.h"
#include "cli/doctor/doctor_findings.h"
#include "core/config/launch_sections.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

constexpr const char* kDoctorHelp = R"(lockstep doctor: check whether this machine is ready to train

  lockstep doctor [--dir RUNS] [--json]

Exercises what training needs and prints one line per check: cores, memory, open files, shared
memory between ranks, clock, run and temporary directories, host name and loopback, environment
variables of launchers, trainer and LibTorch, GPUs and their driver. Run it on every machine of a
job. Takes a second or two, changes nothing and leaves no files.

  --dir RUNS   directory of the runs, run.dir of the run file (default: runs)
  --json       print an array of {what, health: good, warning or problem, text}

Exit codes: 0 no problems (there may be warnings), 75 at least one problem.
)";

constexpr const char* kHealthNames[] = {"good", "warning", "problem"};

const char* name_of_health(Health health) { return kHealthNames[static_cast<int>(health)]; }

void print_finding(const Finding& finding) {
  const auto* mark = finding.health == Health::Good      ? "ok"
                     : finding.health == Health::Warning ? "warning"
                                                         : "PROBLEM";
  fmt::print("{:<9}{:<17}{}\n", mark, finding.what, finding.text);
  std::fflush(stdout);  // the next check may take seconds
}

int exit_code_of(const std::vector<Finding>& findings) {
  const bool problem = std::ranges::any_of(
      findings, [](const Finding& finding) { return finding.health == Health::Problem; });
  return problem ? static_cast<int>(ErrorKind::Environment) : 0;
}

void print_json(const std::vector<Finding>& findings) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& [what, health, text] : findings)
    list.push_back({{"what", what}, {"health", name_of_health(health)}, {"text", text}});
  fmt::print("{}\n", list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

int doctor_command(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (wants_help(words)) {
    fmt::print("{}", kDoctorHelp);
    return 0;
  }
  cxxopts::Options options("lockstep doctor");
  options.add_options()("dir", "", cxxopts::value<std::string>()->default_value(kRunsDir))("json",
                                                                                           "");
  const auto parsed = parse_words(options, words);
  const bool as_json = parsed.count("json") > 0;
  const auto runs = parsed["dir"].as<std::string>();
  std::vector<Finding> findings;
  // The check of shared memory forks, so it precedes those that start threads.
  for (const std::function<Finding()>& run_check : {std::function<Finding()>(check_cores),
                                                    {check_memory},
                                                    {check_open_files},
                                                    {check_shared_memory},
                                                    {check_clock},
                                                    {[&] { return check_runs_directory(runs); }},
                                                    {check_temporary_directory},
                                                    {check_host_name},
                                                    {check_loopback},
                                                    {check_environment},
                                                    {check_trainer},
                                                    {check_gpus}}) {
    findings.push_back(run_check());
    if (!as_json) print_finding(findings.back());
  }
  if (as_json) print_json(findings);
  std::fflush(nullptr);
  // A thread may still hang in the name service or in a driver.
  std::_Exit(exit_code_of(findings));
}

}  // namespace lockstep::cli
