#include "models/compiled/graph.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner_cpu.h>

#include <cstdlib>
#include <filesystem>

#include "core/printable.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"

namespace lockstep::models {
namespace {

std::filesystem::path temporary_directory() {
  std::error_code error;
  const auto path = std::filesystem::temp_directory_path(error);
  if (!error) return path;
  throw environment_error(
      fmt::format("TMPDIR: {}: set it to a directory from which compiled code can be loaded",
                  error.message()));
}

// A temporary directory from which compiled code is loaded.
class CodeDirectory {
 public:
  CodeDirectory() {
    auto pattern = (temporary_directory() / "lockstep-XXXXXX").string();
    if (!::mkdtemp(pattern.data()))
      throw errno_error("cannot create a directory for compiled code in " + pattern);
    path_ = pattern;
  }
  ~CodeDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  CodeDirectory(const CodeDirectory&) = delete;
  CodeDirectory& operator=(const CodeDirectory&) = delete;

  std::string write(const char* name, const std::vector<uint8_t>& content) const {
    const auto path = path_ / name;
    write_file_durably(path, {reinterpret_cast<const char*>(content.data()), content.size()});
    return path.string();
  }

 private:
  std::filesystem::path path_;
};

std::unique_ptr<torch::inductor::AOTIModelContainerRunner> make_runner(const std::string& library,
                                                                       const std::string& device) {
  if (device == "cpu")
    return std::make_unique<torch::inductor::AOTIModelContainerRunnerCpu>(
        library, /*num_models=*/1, /*run_single_threaded=*/true);
  // LibTorch's CUDA library, which is loaded at this point, registers its runner here.
  const auto& factories = torch::inductor::getAOTIModelRunnerRegistry();
  const auto found = factories.find(device.substr(0, device.find(':')));
  if (found == factories.end())
    throw config_error(
        fmt::format("this LibTorch cannot run compiled code on '{}'", printable(device)));
  return found->second(library, 1, device, std::filesystem::path(library).parent_path(), true);
}

}  // namespace

CompiledGraph::CompiledGraph(const GraphFiles& files, const std::string& device,
                             const std::string& name) {
  const CodeDirectory folder;
  const auto library = folder.write("graph.so", files.library);
  if (!files.operators.empty()) folder.write("graph.json", files.operators);
  try {
    runner_ = make_runner(library, device);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    if (text.find("failed to map segment") != std::string::npos)
      throw environment_error(fmt::format(
          "{}: cannot load its code from {}: it may be mounted noexec; set TMPDIR to a directory "
          "that allows execution",
          name, printable(temporary_directory().string(), 200)));
    throw config_error(fmt::format("{}: cannot load its code: {}", name,
                                   printable(text.substr(0, text.find('\n')), 300)));
  }
}

CompiledGraph::~CompiledGraph() = default;

std::vector<at::Tensor> CompiledGraph::run(const std::vector<at::Tensor>& inputs) const {
  const at::NoGradGuard no_grad;
  return runner_->run(inputs);
}

}  // namespace lockstep::models
