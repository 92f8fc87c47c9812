#include "cli/launch/job_agreements.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/system/durable_file.h"
#include "lockstep/version.h"
#include "tracking/artifacts/sha256.h"

namespace lockstep::cli {
namespace {

constexpr size_t kMaxProgramBytes = 4ull << 30;

// Run files are compared by content: their paths may differ between nodes.
bool names_run_file(const std::string& argument) {
  std::error_code error;
  return (argument.ends_with(".yaml") || argument.ends_with(".yml")) &&
         std::filesystem::is_regular_file(argument, error);
}

}  // namespace

std::vector<launch::Agreement> job_agreements(const LaunchArguments& arguments,
                                              const std::string& program) {
  const auto& nodes = arguments.rendezvous;
  std::string files, others;
  for (const auto& argument : arguments.rest)
    if (names_run_file(argument))
      files += tracking::sha256_of(read_file(argument)) + " ";
    else
      others += (others.empty() ? "" : " ") + argument;
  std::vector<launch::Agreement> agreements = {
      {"the version of Lockstep", kVersion},
      {"--nnodes", nodes.min_nodes == nodes.max_nodes
                       ? fmt::format("{}", nodes.max_nodes)
                       : fmt::format("{}:{}", nodes.min_nodes, nodes.max_nodes)},
      {"--rdzv-id", arguments.rdzv_id},
      {"--on-rank-loss", arguments.continues_on_loss ? "continue" : "restart"},
      {"--max-restarts", fmt::format("{}", arguments.max_restarts)},
      {"--run-id", arguments.run_id.value_or("")},
      {"--resume", arguments.resume.value_or("")},
      {"--predict", arguments.predict.value_or("")},
      {"--evaluate", arguments.evaluates ? "given" : ""},
      {"--generate", arguments.generate.value_or("")},
      {"the run file", files.empty() ? "" : tracking::sha256_of(files)},
      {"the list of overrides and arguments", others}};
  // Two builds of the trainer may compute different bits. A custom program may be a script.
  if (!arguments.program)
    agreements.push_back({"the build of lockstep-trainer",
                          tracking::sha256_of(read_file(program, kMaxProgramBytes))});
  for (auto& [what, value] : agreements)  // arguments may be longer than a message
    if (value.size() > launch::kMaxShownValueLength) value = tracking::sha256_of(value);
  return agreements;
}

}  // namespace lockstep::cli
