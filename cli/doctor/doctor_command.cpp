// `lockstep doctor`: whether this machine can train.
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

constexpr const char* kDoctorHelp = R"(lockstep doctor: whether this machine can train

  lockstep doctor [--dir RUNS] [--json]

Tries what training needs, the way it will be used, and says one line for each: cores, memory, open
files, shared memory between ranks, the clock, where runs and temporary files go, names and sockets,
the trainer and LibTorch, GPUs and their driver, variables that a launcher has left. Run it on every
machine of a job. Takes a second or two, changes nothing and leaves nothing behind.

  --dir RUNS   where runs are to be kept (run.dir of the run file); default: runs
  --json       an array of {what, health: good, warning or problem, text}

Exit codes: 0 nothing stands in the way (there may be warnings), 75 there is a problem.
)";

constexpr const char* kHealthNames[] = {"good", "warning", "problem"};

const char* name_of_health(Health health) { return kHealthNames[static_cast<int>(health)]; }

void print_finding(const Finding& finding) {
  const auto* mark = finding.health == Health::Good      ? "ok"
                     : finding.health == Health::Warning ? "warning"
                                                         : "PROBLEM";
  fmt::print("{:<9}{:<17}{}\n", mark, finding.what, finding.text);
  std::fflush(stdout);  // the next one may take its time
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
  // Shared memory forks, so it comes before there are threads.
  for (const std::function<Finding()>& look : {std::function<Finding()>(look_at_cores),
                                               {look_at_memory},
                                               {look_at_open_files},
                                               {look_at_shared_memory},
                                               {look_at_clock},
                                               {[&] { return look_at_runs_directory(runs); }},
                                               {look_at_temporary_directory},
                                               {look_at_host_name},
                                               {look_at_loopback},
                                               {look_at_environment},
                                               {look_at_trainer},
                                               {look_at_gpus}}) {
    findings.push_back(look());
    if (!as_json) print_finding(findings.back());
  }
  if (as_json) print_json(findings);
  std::fflush(nullptr);
  // A name service or a driver that hangs may still hold a thread.
  std::_Exit(exit_code_of(findings));
}

}  // namespace lockstep::cli
