#include "launch/environment/worker_env.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <thread>

#include "core/control_group.h"
#include "core/visible_gpus.h"
#include "launch/environment/openmp_wait.h"
#include "lockstep/rank_env.h"

namespace lockstep::launch {
namespace {

using Variables = std::map<std::string, std::string>;

void add_entry(const std::string& entry, Variables& variables) {
  const auto equals = entry.find('=');
  if (equals != std::string::npos)
    variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
}

Variables own_variables() {
  Variables variables;
  for (char** entry = environ; entry && *entry; ++entry) add_entry(*entry, variables);
  // These refer to resources of an outer launcher, or are a secret that workers do not need.
  for (const char* name :
       {"TORCHELASTIC_USE_AGENT_STORE", "LOCKSTEP_PROGRESS_FD", "LOCKSTEP_MASTER_LISTEN_FD",
        "LOCKSTEP_RUN_ID", "LOCKSTEP_RDZV_TOKEN", "LOCKSTEP_GROUP_FD", "LOCKSTEP_LOSS_FD",
        "LOCKSTEP_GROUP_ADDRESS", "LOCKSTEP_SPARE", kTemplateVariable, kTemplateSpace})
    variables.erase(name);
  return variables;
}

// Those that differ between workers and launches; they are read after the start only.
void remove_place(Variables& variables) {
  for (const char* name : {"RANK",
                           "ROLE_RANK",
                           "WORLD_SIZE",
                           "ROLE_WORLD_SIZE",
                           "LOCAL_RANK",
                           "LOCAL_WORLD_SIZE",
                           "GROUP_RANK",
                           "GROUP_WORLD_SIZE",
                           "ROLE_NAME",
                           "MASTER_ADDR",
                           "MASTER_PORT",
                           "TORCHELASTIC_RESTART_COUNT",
                           "TORCHELASTIC_MAX_RESTARTS",
                           "TORCHELASTIC_RUN_ID",
                           "TORCHELASTIC_ERROR_FILE",
                           "LOCKSTEP_RUN_ID",
                           "LOCKSTEP_PROGRESS_FD",
                           "LOCKSTEP_MASTER_LISTEN_FD",
                           "LOCKSTEP_GROUP_FD",
                           "LOCKSTEP_LOSS_FD",
                           "LOCKSTEP_GROUP_ADDRESS",
                           "LOCKSTEP_SPARE"})
    variables.erase(name);
}

void set_defaults(Variables& variables, int num_workers) {
  variables.emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");  // unless the user has decided
  // Python keeps what it writes to a pipe until there are 8 KB, and loses it when it is killed.
  variables.emplace("PYTHONUNBUFFERED", "1");
  if (!environment("OMP_NUM_THREADS"))
    variables["OMP_NUM_THREADS"] = std::to_string(std::max(1, num_usable_cores() / num_workers));
  if (!environment("OMP_WAIT_POLICY")) variables.emplace(kSpinVariable, kSpinCount);
}

std::vector<std::string> entries_of(const Variables& variables) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(fmt::format("{}={}", name, value));
  return entries;
}

void set_ranks(Variables& variables, const WorkerPlace& place) {
  const auto& node = place.node;
  const auto rank = std::to_string(node.first_rank + place.local_rank);
  const auto world_size = std::to_string(node.world_size);
  variables["RANK"] = variables["ROLE_RANK"] = rank;
  variables["WORLD_SIZE"] = variables["ROLE_WORLD_SIZE"] = world_size;
  variables["LOCAL_RANK"] = std::to_string(place.local_rank);
  variables["LOCAL_WORLD_SIZE"] = std::to_string(place.num_workers);
  variables["GROUP_RANK"] = std::to_string(node.node_rank);
  variables["GROUP_WORLD_SIZE"] = std::to_string(node.num_nodes);
  variables["ROLE_NAME"] = place.role;
}

}  // namespace

std::vector<std::string> worker_environment(const WorkerPlace& place) {
  auto variables = own_variables();
  set_ranks(variables, place);
  variables["MASTER_ADDR"] = place.node.master_addr;
  variables["MASTER_PORT"] = std::to_string(place.node.master_port);
  variables["TORCHELASTIC_RESTART_COUNT"] = std::to_string(place.node.restart_count);
  variables["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(place.node.max_restarts);
  const auto& run_id = place.node.run_id;
  variables["TORCHELASTIC_RUN_ID"] = run_id.empty() ? std::string("none") : run_id;
  variables["TORCHELASTIC_ERROR_FILE"] = std::filesystem::absolute(place.error_file).string();
  if (!run_id.empty()) variables["LOCKSTEP_RUN_ID"] = run_id;
  if (place.progress_fd >= 0) variables["LOCKSTEP_PROGRESS_FD"] = std::to_string(place.progress_fd);
  if (place.listen_fd) variables["LOCKSTEP_MASTER_LISTEN_FD"] = std::to_string(*place.listen_fd);
  if (place.group_fd) variables["LOCKSTEP_GROUP_FD"] = std::to_string(*place.group_fd);
  if (place.loss_fd) variables["LOCKSTEP_LOSS_FD"] = std::to_string(*place.loss_fd);
  if (place.group_fd && !place.node.address.empty())
    variables["LOCKSTEP_GROUP_ADDRESS"] = place.node.address;
  if (place.is_spare) variables.emplace("LOCKSTEP_SPARE", "1");
  set_defaults(variables, place.num_workers);
  return entries_of(variables);
}

std::vector<std::string> template_environment(int num_workers) {
  auto variables = own_variables();
  remove_place(variables);
  set_defaults(variables, num_workers);
  return entries_of(variables);
}

bool has_template_environment(const std::vector<std::string>& environment) {
  Variables wanted;
  for (const auto& entry : environment) add_entry(entry, wanted);
  auto own = own_variables();
  for (auto* variables : {&wanted, &own}) {
    remove_place(*variables);
    // The trainer of an installation does not restore an empty one; the loader ignores it.
    if (const auto path = variables->find("LD_LIBRARY_PATH");
        path != variables->end() && path->second.empty())
      variables->erase(path);
  }
  return wanted == own;
}

std::vector<std::string> entries_of_place(const std::vector<std::string>& environment) {
  Variables all;
  for (const auto& entry : environment) add_entry(entry, all);
  auto others = all;
  remove_place(others);
  std::erase_if(all, [&](const auto& variable) { return others.contains(variable.first); });
  return entries_of(all);
}

void replace_environment(const std::vector<std::string>& environment) {
  Variables variables;
  for (const auto& entry : environment) add_entry(entry, variables);
  ::clearenv();
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
}

std::span<char> template_space() {
  for (char** entry = environ; entry && *entry; ++entry)
    if (std::string_view(*entry).starts_with(kTemplateSpace))
      return {*entry, std::strlen(*entry) + 1};
  return {};
}

std::vector<std::string> usable_gpus() {
  std::error_code error;
  size_t present = 0;
  for (std::filesystem::directory_iterator it("/proc/driver/nvidia/gpus", error), end;
       !error && it != end; it.increment(error))
    ++present;
  const auto variables = own_variables();
  const auto visible = variables.find("CUDA_VISIBLE_DEVICES");
  std::vector<std::string> names;
  if (visible == variables.end()) {
    while (names.size() < present) names.push_back(std::to_string(names.size()));
    return names;
  }
  names = visible_gpus(visible->second);
  const bool are_parts = !names.empty() && names.front().starts_with("MIG-");  // of a GPU
  if (present == 0 || !are_parts) names.resize(std::min(names.size(), present));
  return names;
}

int num_usable_gpus() { return static_cast<int>(usable_gpus().size()); }

std::string gpus_of_job(const std::vector<std::string>& gpus, int job, int num_workers) {
  const auto each = std::min(static_cast<size_t>(num_workers), gpus.size());
  std::vector<std::string> names;
  for (size_t i = 0; i < each; ++i) names.push_back(gpus[(job * each + i) % gpus.size()]);
  return fmt::format("{}", fmt::join(names, ","));
}

int num_usable_cores() {
  // The second one is for machines with more cores than a cpu_set_t holds.
  cpu_set_t allowed;
  const int cores = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0
                        ? CPU_COUNT(&allowed)
                        : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, std::min(cores, static_cast<int>(cpu_limit().value_or(cores))));
}

}  // namespace lockstep::launch
