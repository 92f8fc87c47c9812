// `lockstep doctor`: checks whether this machine is ready to train, or a bucket can be used.
#include <fmt/format.h>

#include <cstdio>
#include <functional>

#include "cli/command_words.h"
#include "cli/commands.h"
#include "cli/doctor/doctor_findings.h"
#include "cli/trainer_program.h"
#include "core/config/launch_sections.h"
#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

constexpr const char* kDoctorHelp = R"(lockstep doctor: check whether this machine is ready to train

  lockstep doctor [--dir RUNS] [--json]
  lockstep doctor s3://BUCKET/PREFIX [--timeout SECONDS] [--json]
  lockstep doctor gs://BUCKET/PREFIX [--timeout SECONDS] [--json]
  lockstep doctor abfss://CONTAINER@ACCOUNT/PREFIX [--timeout SECONDS] [--json]
  lockstep doctor https://HOST/PATH [--timeout SECONDS] [--json]
  lockstep doctor hf://datasets/OWNER/NAME [--timeout SECONDS] [--json]

Exercises what training needs and prints one line per check: cores, memory, open files, shared
memory between ranks, clock, run and temporary directories, host name and loopback, environment
variables of launchers, trainer and LibTorch, GPUs and their driver. Run it on every machine of a
job. Takes a second or two, changes nothing and leaves no files.

With a bucket, checks it instead: latency, credentials (never shown), the difference of the clocks,
the rights to list, read, write and delete, and throughput. Writes one object of up to 34 MB below
PREFIX, and removes it. Server and credentials are those of runs: AWS_..., GOOGLE_... and AZURE_...
variables, or ?endpoint_override=host:port&scheme=http and other options at the end of the path. Of
an https:// or hf:// path, checks latency, token (never shown), reading and throughput; writes
nothing.

  --dir RUNS         directory of the runs, run.dir of the run file (default: runs)
  --timeout SECONDS  of all checks of a bucket (default: 60)
  --json             print an array of {what, health: good, warning or problem, text}

Exit codes: 0 no problems (there may be warnings), 75 at least one problem.
)";

constexpr int kMaxStoreTimeout = 3600;  // seconds

// `lockstep doctor s3://...`. The trainer does it, which has the client of object stores.
[[noreturn]] void check_store(const cxxopts::ParseResult& parsed) {
  const auto path = parsed["path"].as<std::string>();
  if (!is_in_store(path))
    throw config_error(
        fmt::format("lockstep doctor: unexpected argument '{}'; valid: s3://bucket/prefix, "
                    "https://host/path, hf://datasets/OWNER/NAME",
                    printable(path, 200)));
  if (parsed.count("dir") > 0)
    throw config_error("lockstep doctor: --dir has no effect on the checks of a bucket; remove it");
  const auto seconds = parsed["timeout"].as<int>();
  if (seconds < 1 || seconds > kMaxStoreTimeout)
    throw config_error(
        fmt::format("lockstep doctor: --timeout must be from 1 to {} seconds", kMaxStoreTimeout));
  check_store_with_trainer(path, seconds, parsed.count("json") > 0);
}

}  // namespace

int doctor_command(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (wants_help({argv + 1, argv + argc})) {
    fmt::print("{}", kDoctorHelp);
    return 0;
  }
  cxxopts::Options options("lockstep doctor");
  options.add_options()("dir", "", cxxopts::value<std::string>()->default_value(kRunsDir));
  options.add_options()("timeout", "", cxxopts::value<int>()->default_value("60"))("json", "");
  options.add_options(kPositional)("path", "", cxxopts::value<std::string>());
  options.parse_positional({"path"});
  const auto parsed = parse_words(options, words);
  if (parsed.count("path") > 0) check_store(parsed);
  if (parsed.count("timeout") > 0)
    throw config_error(
        "lockstep doctor: --timeout is for the checks of a bucket; add s3://bucket/prefix");
  const bool as_json = parsed.count("json") > 0;
  const auto runs = parsed["dir"].as<std::string>();
  if (is_in_store(runs))
    throw config_error(fmt::format(
        "lockstep doctor: --dir {0}: expected a directory; to check a bucket: lockstep doctor {0}",
        printable(runs, 200)));
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
    if (!as_json) std::fputs(line_of_finding(findings.back()).c_str(), stdout);
    verify_written();  // the next check may take seconds
  }
  if (as_json) std::fputs(json_of_findings(findings).c_str(), stdout);
  verify_written();
  // A thread may still hang in the name service or in a driver.
  std::_Exit(exit_code_of_findings(findings));
}

}  // namespace lockstep::cli
