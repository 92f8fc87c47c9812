#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <map>

#include "cli/doctor/doctor_findings.h"
#include "cli/launch/launch_arguments.h"
#include "cli/trainer_program.h"
#include "core/number_text.h"
#include "core/printable.h"
#include "launch/environment/node_env.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"
#include "tracking/system/gpu_watch.h"
#include "tracking/system/proc_file.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kStartTimeout{30}, kSlowStart{3};
constexpr auto kDriverTimeout = std::chrono::seconds(10);
constexpr uint64_t kMinDriver = 580;  // for CUDA 13, which LibTorch 2.11 includes

std::string first_line(const std::string& text) {
  return printable(text.substr(0, text.find('\n')), 200);
}

// "580.65.06"; empty without a driver.
std::string driver_version() {
  tracking::proc::FileReader reader;
  const auto text = reader.read("/proc/driver/nvidia/version");
  if (!text) return {};
  for (auto line = text->substr(0, text->find('\n')); !line.empty();) {
    const auto word = tracking::proc::next_word(line);
    if (!word.empty() && word.front() >= '0' && word.front() <= '9' &&
        word.find('.') != std::string_view::npos)
      return std::string(word);
  }
  return {};
}

// "2 x NVIDIA H200".
std::string list_gpus(const std::vector<tracking::GpuReading>& gpus) {
  std::map<std::string, int> counts;
  for (const auto& gpu : gpus) ++counts[gpu.name.empty() ? "GPU" : printable(gpu.name, 60)];
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) parts.push_back(fmt::format("{} x {}", count, name));
  return fmt::format("{}", fmt::join(parts, ", "));
}

bool has_cuda_library() {
  const auto bin = fs::path(own_program()).parent_path();
  std::error_code error;
  return fs::exists(bin.parent_path() / "lib" / "liblockstep_cuda.so", error);
}

// What `lockstep launch` reads from the environment.
Finding check_launch_environment() {
  try {
    if (const auto node = launch::read_node_env(); node && node->num_nodes > 1)
      return {"environment", Health::Good,
              fmt::format("node {} of {}: 'lockstep launch' starts the ranks of this node",
                          node->node_rank, node->num_nodes)};
  } catch (const Error& error) {
    return {"environment", Health::Problem,
            std::string("'lockstep launch' cannot start: ") + error.what()};
  }
  const auto options = options_in_environment();
  if (!options.empty())
    return {"environment", Health::Warning,
            fmt::format("{}: 'lockstep launch' takes this as if it were in its options; unset what "
                        "is not meant for it",
                        printable(fmt::format("{}", fmt::join(options, " ")), 200))};
  return {"environment", Health::Good,
          "no variables of a launcher: one process, or 'lockstep launch'"};
}

}  // namespace

Finding check_environment() {
  const auto set = environment("RANK");
  try {
    const auto env = read_rank_env();
    if (!env.job.empty())
      return {"environment", Health::Good,
              fmt::format("rank {} of {}, of {}", env.rank, env.world_size, printable(env.job))};
    if (set || env.world_size > 1)
      return {
          "environment", Health::Warning,
          fmt::format("set for rank {} of {}: lockstep-trainer started here waits for the other "
                      "ranks; unset RANK, WORLD_SIZE and related variables, unless a launcher "
                      "set them",
                      env.rank, env.world_size)};
  } catch (const Error& error) {
    return {"environment", Health::Problem, std::string("ranks cannot start: ") + error.what()};
  }
  return check_launch_environment();
}

Finding check_trainer() {
  try {
    const auto program = trainer_program();
    if (::access(program.c_str(), X_OK) != 0)
      return {"trainer", Health::Problem,
              fmt::format("'{}' is missing or not executable: build it (make build), or install "
                          "both programs together",
                          printable(program, 200))};
    const auto begin = std::chrono::steady_clock::now();
    const auto version = first_line(trainer_output({"--version"}, kStartTimeout));
    const auto taken = std::chrono::steady_clock::now() - begin;
    if (version.empty())
      return {"trainer", Health::Problem,
              fmt::format("'{} --version' fails: run it to see why (often LibTorch was moved or "
                          "removed, or has another version: ldd shows what is missing)",
                          printable(program, 200))};
    const auto found = fmt::format("{}, starts in {:.1f} s", version,
                                   std::chrono::duration<double>(taken).count());
    if (taken < kSlowStart) return {"trainer", Health::Good, found};
    return {"trainer", Health::Warning,
            found + ": slow; is LibTorch on a network file system? Later starts are faster"};
  } catch (const Error& error) {
    return {"trainer", Health::Problem, error.what()};
  }
}

Finding check_gpus() {
  const auto driver = driver_version();
  if (driver.empty())
    return {"GPUs", Health::Good, "no NVIDIA driver: distributed.device: auto uses the CPU"};
  tracking::GpuWatch watch("libnvidia-ml.so.1", kDriverTimeout);
  watch.begin_reading({});
  const auto gpus = watch.end_reading();
  if (gpus.empty())
    return {
        "GPUs", Health::Problem,
        fmt::format("driver {} is loaded, but no GPU responds within {} s: does nvidia-smi work?",
                    printable(driver), kDriverTimeout.count())};
  const auto found = fmt::format("{}, driver {}", list_gpus(gpus), printable(driver));
  const auto major = parse_number<uint64_t>(driver.substr(0, driver.find('.')));
  if (major && *major < kMinDriver)
    return {"GPUs", Health::Problem,
            fmt::format("{}: CUDA 13 of the tested LibTorch needs driver {} or later; update it, "
                        "or set distributed.device: cpu",
                        found, kMinDriver)};
  if (!has_cuda_library())
    return {"GPUs", Health::Problem,
            found + "; but this build has no CUDA support (see cmake/requirements-gpu.txt)"};
  return {"GPUs", Health::Good, found};
}

}  // namespace lockstep::cli
