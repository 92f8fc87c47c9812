#include "trainer/commands/plan_command.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <limits>

#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "core/run_id.h"
#include "lockstep/error.h"
#include "tracking/runs/run_directory.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/commands/plan/run_plan.h"
#include "trainer/commands/trained_weights.h"
#include "trainer/loop/trial.h"
#include "trainer/prepared/model_faults.h"

namespace lockstep::trainer {
namespace {

constexpr const char* kPlanHelp =
    R"(lockstep plan: estimate steps, memory and communication of a run, without starting it

  lockstep plan [-n RANKS] [--nnodes NODES] [--on-rank-loss continue] [--json] CONFIG
                [key.subkey=value ...]

Prints samples and batches per rank, steps, the learning rate over the run, parameters, memory,
checkpoint size, gradient buckets, and memory and traffic of each sharding strategy. Reports the same
errors as training on these ranks before its first step.

Activations are measured in one step of a micro-batch on the CPU, or estimated from batches of 1 and
2 samples if it is large. Weights and gradients need no memory. If the files of the data are not
here, samples are assumed to have the largest size that the model allows, and the numbers that
depend on the data are left out.

  -n RANKS        ranks per node, as for lockstep launch (default: 1)
  --nnodes NODES  number of nodes (default: 1); with MIN:MAX the plan is for MAX nodes, and the
                  batch must be divisible for every number of nodes from MIN to MAX
  --on-rank-loss WHAT
                  as for lockstep launch: continue counts the copies of sharded state (default: restart)
  --json          print JSON, with sizes in bytes
)";

constexpr int64_t kMaxRanks = 1 << 20;

struct PlanArguments {
  int64_t per_node = 1, nodes = 1;
  int64_t min_nodes = 1;  // of --nnodes MIN:MAX; else equal to `nodes`
  bool as_json = false;
  bool continues_on_loss = false;  // --on-rank-loss continue
  std::vector<std::string> positional;
};

int64_t parse_count(const std::string& option, const std::string& text) {
  int64_t value = 0;
  const auto* const end = text.data() + text.size();
  if (std::from_chars(text.data(), end, value).ptr != end || value < 1 || value > kMaxRanks)
    throw config_error(fmt::format("lockstep plan: {}: expected an integer from 1 to {}, got '{}'",
                                   option, kMaxRanks, printable(text)));
  return value;
}

void parse_nodes(PlanArguments& parsed, const std::string& text) {
  const auto colon = text.find(':');
  parsed.nodes =
      parse_count("--nnodes", colon == std::string::npos ? text : text.substr(colon + 1));
  parsed.min_nodes =
      colon == std::string::npos ? parsed.nodes : parse_count("--nnodes", text.substr(0, colon));
  if (parsed.min_nodes > parsed.nodes)
    throw config_error(fmt::format("lockstep plan: --nnodes {}: expected MIN:MAX with MIN <= MAX",
                                   printable(text)));
}

bool parse_on_loss(const std::string& text) {
  if (text != "continue" && text != "restart")
    throw config_error(fmt::format(
        "lockstep plan: --on-rank-loss {}: expected 'restart' or 'continue'", printable(text)));
  return text == "continue";
}

PlanArguments parse_plan(const std::vector<std::string>& words) {
  PlanArguments parsed;
  for (size_t i = 0; i < words.size(); ++i) {
    const auto equals = words[i].find('=');
    const bool is_long = words[i].starts_with("--");
    const auto option = is_long ? words[i].substr(0, equals) : words[i];
    const bool is_ranks = option == "-n" || option == "--nproc-per-node";
    if (option == "--json") {
      parsed.as_json = true;
    } else if (is_ranks || option == "--nnodes" || option == "--on-rank-loss") {
      const bool has_value = is_long && equals != std::string::npos;
      if (!has_value && i + 1 == words.size())
        throw config_error(
            fmt::format("lockstep plan: {} needs {}", option,
                        option == "--on-rank-loss" ? "'restart' or 'continue'" : "a number"));
      const auto value = has_value ? words[i].substr(equals + 1) : words[++i];
      if (is_ranks)
        parsed.per_node = parse_count(option, value);
      else if (option == "--nnodes")
        parse_nodes(parsed, value);
      else
        parsed.continues_on_loss = parse_on_loss(value);
    } else if (words[i].starts_with("-")) {
      throw config_error(fmt::format(
          "lockstep plan: unknown option '{}'{}", printable(words[i]),
          suggest(option, {"-n", "--nproc-per-node", "--nnodes", "--on-rank-loss", "--json"})));
    } else {
      parsed.positional.push_back(words[i]);
    }
  }
  if (parsed.positional.empty())
    throw config_error("lockstep plan: no run file given; see lockstep plan --help");
  if (const auto ranks = parsed.per_node * parsed.nodes; ranks > kMaxRanks)
    throw config_error(
        fmt::format("lockstep plan: {} ranks are too many (maximum: {})", ranks, kMaxRanks));
  return parsed;
}

// Checks the batch size for every permitted number of nodes.
void verify_batch(const data::LoaderConfig& config, const PlanArguments& parsed) {
  if (parsed.min_nodes == parsed.nodes || config.per_rank_batch_size ||
      config.batch_remainder != BatchRemainder::Refuse)
    return;
  std::vector<int64_t> ranks;
  for (auto nodes = parsed.min_nodes; nodes <= parsed.nodes; ++nodes)
    ranks.push_back(nodes * parsed.per_node);
  const auto problem =
      batch_size_problem(config.batch_size.value_or(kDefaultBatchSize), ranks,
                         fmt::format("--nnodes {}:{}", parsed.min_nodes, parsed.nodes));
  if (!problem.empty()) throw config_error(problem);
}

// The device of a dry run has the memory that it has: not limited here.
Activations dry_step(const PreparedRun& run, at::Device device) {
  const auto num_samples = run.plan.per_rank_batch_size;
  const auto memory = try_step(run, device, num_samples, std::numeric_limits<size_t>::max());
  return measured_in_step(memory, num_samples);
}

// Verifies that the weights of the run `id` fit, and describes where it would continue. Training
// fetches checkpoints from the mirror if none is here.
std::string resumed_text(World& world, const PreparedRun& run, const std::string& id) {
  const auto run_dir = std::filesystem::path(run.config.run.dir) / id;
  if (run.config.checkpoint.mirror && is_run_id(id) &&
      list_checkpoints(tracking::checkpoints_path(run_dir)).empty())
    return fmt::format(
        "resume: {} has no checkpoint here; --dry-run does not verify checkpoint.mirror\n",
        run_dir.string());
  return load_trained_weights(world, {"--dry-run", "resume from"}, id, run).text();
}

}  // namespace

CommandOutput plan_command(const std::vector<std::string>& words) {
  for (const auto& word : words)
    if (word == "--help" || word == "-h") return {kPlanHelp};
  const auto parsed = parse_plan(words);
  const auto config = load_run_config(parsed.positional.front(),
                                      {parsed.positional.begin() + 1, parsed.positional.end()});
  verify_batch(config.data.loader, parsed);
  const auto run =
      prepare_plan(config, {.world_size = static_cast<int>(parsed.per_node * parsed.nodes),
                            .local_world_size = static_cast<int>(parsed.per_node)});
  const auto plan = plan_run(run, measure_activations(run), parsed.continues_on_loss);
  return {parsed.as_json ? plan.dump(2) + "\n" : render_plan(plan)};
}

std::string dry_run(const PreparedRun& run, const std::optional<std::string>& run_id) {
  const auto& config = run.config;
  const auto alone =
      World::connect({.device = config.distributed.device, .backend = config.distributed.backend});
  load_initial_weights(*alone, run);
  const auto resumed = run_id ? resumed_text(*alone, run, *run_id) : "";
  in_gpu_memory(run.model_title(), [&] { run.model->to(alone->device()); });
  run.model->train();
  try_model(run, alone->device());
  const auto activations = dry_step(run, alone->device());
  run.model->to(at::kCPU);
  return render_plan(plan_run(run, activations)) +
         "dry run: run file, data and model are valid, and one batch passed\n" + resumed;
}

}  // namespace lockstep::trainer
