#include "trainer/commands/plan_command.h"

#include <fmt/format.h>

#include <charconv>

#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "lockstep/error.h"
#include "trainer/commands/run_plan.h"

namespace lockstep::trainer {
namespace {

constexpr const char* kPlanHelp = R"(lockstep plan: what a run file is going to be on so many ranks

  lockstep plan [-n RANKS] [--nnodes NODES] [--json] CONFIG [key.subkey=value ...]

Says it without starting any of them: samples and batches of each rank, steps, the learning rate on
the way, parameters, memory, checkpoints, gradient buckets and what each rank sends in a step. What a
training on these ranks would refuse before its first step is refused here. Builds the datasets, the
model and the optimizer, so it takes the memory of a rank.

  -n RANKS        on each node, as of lockstep launch; default: 1
  --nnodes NODES  default: 1; with MIN:MAX the plan is for MAX, and each number of nodes from MIN
                  on must be able to share the batch
  --json          the same for programs; sizes in bytes
)";

constexpr int64_t kMaxRanks = 1 << 20;

struct PlanWords {
  int64_t per_node = 1, nodes = 1;
  int64_t least_nodes = 1;  // of --nnodes MIN:MAX; else as many
  bool as_json = false;
  std::vector<std::string> positional;
};

int64_t count_of(const std::string& option, const std::string& text) {
  int64_t value = 0;
  const auto* const end = text.data() + text.size();
  if (std::from_chars(text.data(), end, value).ptr != end || value < 1 || value > kMaxRanks)
    throw config_error(
        fmt::format("lockstep plan: {} must be a whole number from 1 to {}, got '{}'", option,
                    kMaxRanks, printable(text)));
  return value;
}

void take_nodes(PlanWords& parsed, const std::string& text) {
  const auto colon = text.find(':');
  parsed.nodes = count_of("--nnodes", colon == std::string::npos ? text : text.substr(colon + 1));
  parsed.least_nodes =
      colon == std::string::npos ? parsed.nodes : count_of("--nnodes", text.substr(0, colon));
  if (parsed.least_nodes > parsed.nodes)
    throw config_error(fmt::format(
        "lockstep plan: --nnodes {}: expected MIN:MAX, the smaller first", printable(text)));
}

PlanWords parse_plan(const std::vector<std::string>& words) {
  PlanWords parsed;
  for (size_t i = 0; i < words.size(); ++i) {
    const auto equals = words[i].find('=');
    const bool is_long = words[i].starts_with("--");
    const auto option = is_long ? words[i].substr(0, equals) : words[i];
    const bool wants_ranks = option == "-n" || option == "--nproc-per-node";
    if (option == "--json") {
      parsed.as_json = true;
    } else if (wants_ranks || option == "--nnodes") {
      const bool has_value = is_long && equals != std::string::npos;
      if (!has_value && i + 1 == words.size())
        throw config_error(fmt::format("lockstep plan: {} needs a number", option));
      const auto value = has_value ? words[i].substr(equals + 1) : words[++i];
      if (wants_ranks)
        parsed.per_node = count_of(option, value);
      else
        take_nodes(parsed, value);
    } else if (words[i].starts_with("-")) {
      throw config_error(
          fmt::format("lockstep plan: unknown option '{}'{}", printable(words[i]),
                      suggest(option, {"-n", "--nproc-per-node", "--nnodes", "--json"})));
    } else {
      parsed.positional.push_back(words[i]);
    }
  }
  if (parsed.positional.empty())
    throw config_error("lockstep plan: no run file given; see lockstep plan --help");
  if (const auto ranks = parsed.per_node * parsed.nodes; ranks > kMaxRanks)
    throw config_error(
        fmt::format("lockstep plan: {} ranks are too many: at most {}", ranks, kMaxRanks));
  return parsed;
}

// With every number of nodes that is allowed.
void verify_batch(const data::LoaderConfig& config, const PlanWords& parsed) {
  if (parsed.least_nodes == parsed.nodes || config.per_rank_batch_size ||
      config.batch_remainder != BatchRemainder::Refuse)
    return;
  std::vector<int64_t> ranks;
  for (auto nodes = parsed.least_nodes; nodes <= parsed.nodes; ++nodes)
    ranks.push_back(nodes * parsed.per_node);
  const auto problem =
      batch_size_problem(config.batch_size.value_or(kDefaultBatchSize), ranks,
                         fmt::format("--nnodes {}:{}", parsed.least_nodes, parsed.nodes));
  if (!problem.empty()) throw config_error(problem);
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
      prepare_training(config, {.world_size = static_cast<int>(parsed.per_node * parsed.nodes),
                                .local_world_size = static_cast<int>(parsed.per_node)});
  const auto plan = plan_run(run);
  return {parsed.as_json ? plan.dump(2) + "\n" : render_plan(plan)};
}

}  // namespace lockstep::trainer
