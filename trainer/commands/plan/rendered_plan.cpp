// A plan as text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/config/size_text.h"
#include "core/printable.h"
#include "trainer/commands/plan/run_plan.h"

namespace lockstep::trainer {
namespace {

std::string size_of(const Json& bytes) { return size_text(bytes.get<uint64_t>()); }

std::string counted(const Json& number, const char* what) {
  const auto count = number.get<int64_t>();
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string plan_line(const char* name, const std::string& text) {
  return fmt::format("  {:<12}{}\n", name, text);
}

std::string render_samples(const Json& data) {
  if (data["samples"].is_null()) return "";
  auto samples = fmt::format("{}, {} per rank and epoch", data["samples"].get<int64_t>(),
                             data["samples_per_rank"].get<int64_t>());
  if (data["repeated"] > 0)
    samples += fmt::format("; {} repeated to balance the ranks", data["repeated"].get<int64_t>());
  if (data["left_out"] > 0)
    samples += fmt::format("; {} dropped (drop_last)", data["left_out"].get<int64_t>());
  return plan_line("samples", samples);
}

// What is assumed in place of data that are not here.
std::string render_missing(const Json& data) {
  if (data["missing"].is_null()) return "";
  const auto path = printable(data["missing"].get<std::string>(), 400);
  if (data["assumed"].is_null())
    return plan_line("data", fmt::format("{}: no such file; planned without evaluation", path));
  const auto assumed = data["assumed"].get<std::string>();
  return plan_line(
      "data", fmt::format("{}: no such file; {}", path,
                          assumed.empty()
                              ? "the size of the samples is unknown: implement example_sample() of "
                                "the model, or set data.train, e.g. to synthetic data"
                              : "assumed: samples of " + assumed));
}

std::string render_steps(const Json& steps) {
  const auto& total = steps["total"];
  if (!steps["per_epoch"].is_null())
    return fmt::format("{} per epoch, {} in total", steps["per_epoch"].get<int64_t>(),
                       total.get<int64_t>());
  if (total.is_null()) return "unknown without the data; set train.max_steps";
  return fmt::format("{} at most (train.max_steps)", total.get<int64_t>());
}

std::string render_data(const Json& data, const Json& steps) {
  auto batch = fmt::format("{} samples, {} per rank{}", data["batch_size"].get<int64_t>(),
                           data["batch_size_per_rank"].get<int64_t>(),
                           data["uneven"] ? ", one less on the last ranks" : "");
  if (data["accumulate"] > 1)
    batch += fmt::format(", {} batches and {} samples per step", data["accumulate"].get<int64_t>(),
                         data["samples_per_step"].get<int64_t>());
  auto text = render_missing(data) + render_samples(data) + plan_line("batch", batch) +
              plan_line("steps", render_steps(steps));
  if (!data["evaluation_samples"].is_null())
    text += plan_line("evaluation",
                      fmt::format("{} samples", data["evaluation_samples"].get<int64_t>()));
  return text + plan_line("loading", counted(data["workers_per_rank"], "thread") + " per rank");
}

std::string render_gradients(const Json& gradients) {
  const auto& buckets = gradients["buckets"];
  std::vector<std::string> sizes;
  for (size_t i = 0; i < std::min<size_t>(buckets.size(), 6); ++i)
    sizes.push_back(size_of(buckets[i]));
  if (buckets.size() > sizes.size())
    sizes.push_back(fmt::format("and {} more", buckets.size() - sizes.size()));
  return plan_line("gradients",
                   fmt::format("{} bucket{}: {}", buckets.size(), buckets.size() == 1 ? "" : "s",
                               fmt::join(sizes, ", ")));
}

constexpr auto kParts = std::array{
    std::pair{"weights", "weights"},           std::pair{"gradients", "gradients"},
    std::pair{"optimizer", "optimizer"},       std::pair{"activations", "activations"},
    std::pair{"gathered", "gathered weights"}, std::pair{"in_flight", "gradients being exchanged"},
    std::pair{"average", "average"},           std::pair{"snapshot", "checkpoint being written"},
    std::pair{"copies", "copies of shards"},
};

std::string render_memory(const Json& memory, const Json& activations) {
  std::vector<std::string> parts;
  for (const auto& [name, text] : kParts)
    if (memory[name].get<uint64_t>() > 0)
      parts.push_back(fmt::format("{} {}", size_of(memory[name]), text));
  const bool is_whole = !activations["bytes"].is_null();
  return plan_line("memory",
                   fmt::format("{} per rank{}: {}", size_of(memory["bytes"]),
                               is_whole ? "" : ", without activations", fmt::join(parts, ", "))) +
         plan_line("activations", activations["note"].get<std::string>()) +
         plan_line("checkpoint", size_of(memory["checkpoint"]));
}

// "none 1.8 GB, full 499.2 MB", of the strategies that are possible.
std::string for_each_strategy(const Json& sharding, const char* number) {
  std::vector<std::string> texts;
  for (const auto& strategy : sharding["strategies"])
    if (strategy["refused"].is_null())
      texts.push_back(
          fmt::format("{} {}", strategy["name"].get<std::string>(), size_of(strategy[number])));
  return fmt::format("{}", fmt::join(texts, ", "));
}

// What to do with the memory of a rank that is free here.
std::string advice(const Json& sharding, const Json& memory) {
  if (const auto& fits = sharding["fits"]; !fits.is_null())
    return "distributed.shard: " + fits.get<std::string>() + " is the first that fits";
  const bool has_too_large_pass =
      memory["activations"].get<uint64_t>() > sharding["free"].get<uint64_t>();
  return has_too_large_pass ? "no strategy fits, use train.recompute or smaller batches"
                            : "no strategy fits, use more ranks or hosts";
}

std::string render_sharding(const Json& sharding, const Json& memory) {
  return plan_line(
      "sharding", fmt::format("{} per rank; {} free here: {}", for_each_strategy(sharding, "bytes"),
                              size_of(sharding["free"]), advice(sharding, memory)));
}

std::string render_traffic(const Json& sharding, const Json& gradients, bool has_hosts) {
  auto text = plan_line(
      "traffic",
      fmt::format("{} sent per rank and step{}", for_each_strategy(sharding, "sent_per_rank"),
                  gradients["shares_memory"].get<bool>() ? ", in shared memory" : ""));
  if (has_hosts)
    text += plan_line("network", for_each_strategy(sharding, "sent_per_host") +
                                     " sent per host and step to other hosts");
  return text;
}

}  // namespace

std::string render_plan(const Json& plan) {
  const auto world = plan["ranks"]["world"].get<int64_t>();
  const auto per_node = plan["ranks"]["per_node"].get<int64_t>();
  auto text = fmt::format("{} rank{}, {} per node, {} node{}\n", world, world == 1 ? "" : "s",
                          per_node, world / per_node, world == per_node ? "" : "s");
  text += render_data(plan["data"], plan["steps"]);
  std::vector<std::string> rates;
  for (const auto& rate : plan["learning_rate"])
    rates.push_back(
        fmt::format("{:.4g} (step {})", rate["lr"].get<double>(), rate["step"].get<int64_t>()));
  if (!rates.empty()) text += plan_line("lr", fmt::format("{}", fmt::join(rates, ", ")));
  const auto& model = plan["model"];
  text += plan_line("model", fmt::format("{}, {} parameters{}", model["name"].get<std::string>(),
                                         model["parameters"].get<int64_t>(),
                                         model["trained"] == model["parameters"]
                                             ? ""
                                             : fmt::format(", {} of them trained",
                                                           model["trained"].get<int64_t>())));
  text += render_memory(plan["memory"], plan["activations"]);
  if (!plan.contains("sharding")) return text;
  const auto& sharding = plan["sharding"];
  return text + render_sharding(sharding, plan["memory"]) + render_gradients(plan["gradients"]) +
         render_traffic(sharding, plan["gradients"], world > per_node);
}

}  // namespace lockstep::trainer
