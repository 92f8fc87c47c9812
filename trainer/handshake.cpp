#include "trainer/handshake.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "core/printable.h"
#include "core/system/crc32c.h"
#include "distributed/objects.h"
#include "formats/store/process_cache.h"
#include "lockstep/error.h"

namespace lockstep::trainer {
namespace {

// What determines the order of training samples: ranks that differ in it would train differently.
nlohmann::json describe_data(const Dataset& dataset) {
  const auto shards = dataset.sample_info().shards;
  return {{"samples", dataset.size()},
          {"shards", crc32c(shards.data(), shards.size() * sizeof(shards[0]))}};
}

nlohmann::json describe_inputs(const PreparedRun& run) {
  const auto text = run.resolved.dump();
  const auto versions = nlohmann::json(formats::store_versions()).dump();
  nlohmann::json inputs = {{"run_file", crc32c(text.data(), text.size())},
                           {"commits", formats::store_commits()},
                           {"versions", crc32c(versions.data(), versions.size())}};
  if (run.data.train) inputs["data.train"] = describe_data(*run.data.train);
  if (run.data.eval) inputs["data.eval"] = describe_data(*run.data.eval);
  return inputs;
}

void verify_same_data(const nlohmann::json& all, const char* name) {
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const auto &first = all[0][name], &other = all[rank][name];
    if (first["samples"] != other["samples"])
      throw config_error(
          fmt::format("{} has {} samples on rank 0, but {} on rank {}: every rank "
                      "must see the same data",
                      name, first["samples"].dump(), other["samples"].dump(), rank));
    if (first["shards"] != other["shards"])
      throw config_error(
          fmt::format("{} has different shards on rank {} than on rank 0: every rank "
                      "must see the same data",
                      name, rank));
  }
}

// A branch can move between the starts of two ranks.
void verify_same_commits(const nlohmann::json& all) {
  for (size_t rank = 1; rank < all.size(); ++rank)
    for (const auto& [place, commit] : all[rank]["commits"].items())
      if (all[0]["commits"].value(place, commit) != commit)
        throw environment_error(fmt::format(
            "{}: rank {} reads commit {}, but rank 0 {}: the repository was changed while the run "
            "started; start it again, or name a commit: @COMMIT",
            printable(place, 400), rank, commit.get<std::string>(),
            all[0]["commits"][place].get<std::string>()));
}

// So can an object be replaced, which need not change its number of samples. Collective.
void verify_same_versions(World& world, const nlohmann::json& all) {
  const auto is_same = [&](const auto& one) { return one["versions"] == all[0]["versions"]; };
  if (std::all_of(all.begin(), all.end(), is_same)) return;
  const nlohmann::json own = formats::store_versions();
  const auto versions = distributed::all_gather_object(world, own, "versions of the data");
  for (size_t rank = 1; rank < versions.size(); ++rank)
    for (const auto& [path, version] : versions[rank].items())
      if (versions[0].value(path, version) != version)
        throw environment_error(
            fmt::format("{}: rank {} reads another version ({}) than rank 0 ({}): the file was "
                        "changed while the run started; start it again",
                        printable(path, 400), rank, version.get<std::string>(),
                        versions[0][path].get<std::string>()));
}

}  // namespace

WorldOptions world_options(const RankEnv& ranks, const DistributedSection& config,
                           ProgressPage* progress) {
  TcpRendezvous rendezvous{.host = ranks.master_addr,
                           .port = static_cast<uint16_t>(ranks.master_port),
                           .serve = !ranks.agent_serves_store,
                           .listen_fd = ranks.listen_fd,
                           .prefix = ranks.store_prefix};
  return {.rank = ranks.rank,
          .local_rank = ranks.local_rank,
          .node_rank = ranks.node_rank,
          .world_size = ranks.world_size,
          .local_world_size = ranks.local_world_size,
          .rendezvous = rendezvous,
          .device = config.device,
          .backend = config.backend,
          .timeout = config.timeout.value,
          .progress = progress,
          .interruptible = ranks.loss_fd.has_value()};
}

std::vector<int64_t> verify_ranks_agree(World& world, const PreparedRun& run) {
  const auto& data = run.data;
  auto own = describe_inputs(run);
  own.update({{"node", run.ranks.node_rank}, {"pid", ::getpid()}});
  const auto all = distributed::all_gather_object(world, own, "run file");
  std::vector<int64_t> local_pids;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank]["run_file"] != all[0]["run_file"])
      throw config_error(fmt::format(
          "rank {} was started with a run file or overrides that differ from rank 0's", rank));
    if (all[rank]["node"] == run.ranks.node_rank)
      local_pids.push_back(all[rank]["pid"].get<int64_t>());
  }
  verify_same_commits(all);
  verify_same_versions(world, all);
  if (data.train) verify_same_data(all, "data.train");
  if (data.eval) verify_same_data(all, "data.eval");
  return local_pids;
}

uint32_t checksum_of_inputs(const PreparedRun& run) {
  const auto text = describe_inputs(run).dump();
  return std::max(crc32c(text.data(), text.size()), 1u);
}

}  // namespace lockstep::trainer
