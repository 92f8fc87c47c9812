#include "distributed/cuda/cuda.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include "core/visible_gpus.h"
#include "distributed/backends/backends.h"
#include "distributed/cuda/launch_graph.h"
#include "lockstep/error.h"

namespace lockstep::distributed {
namespace {

constexpr const char* kLibrary = "liblockstep_cuda.so";

using MakeGraph = LaunchGraph* (*)();
using MakeNccl = c10d::Backend* (*)(const c10::intrusive_ptr<c10d::Store>*, int, int, int64_t);

struct CudaLibrary {
  void* handle;
  std::string error;  // of dlopen(), if `handle` is null
};

const CudaLibrary& cuda_library() {
  static const auto library = [] {
    // Found through the program's RUNPATH, next to the other libraries of the build or installation.
    void* const handle = ::dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);
    return CudaLibrary{handle, handle ? "" : ::dlerror()};
  }();
  return library;
}

void* open_cuda_library() {
  const auto& library = cuda_library();
  if (!library.handle)
    throw config_error(
        fmt::format("device 'cuda' cannot be used: {} (build with the CUDA wheel of LibTorch: "
                    "cmake/requirements-gpu.txt); or set distributed.device=cpu",
                    library.error));
  return library.handle;
}

int count_gpus() {
  open_cuda_library();
  check(at::detail::getCUDAHooks().hasCUDART(),
        "the CUDA part of LibTorch was loaded after LibTorch looked for it");
  const auto count = at::hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0;
  if (count == 0)
    throw config_error(
        "device 'cuda' cannot be used: no GPU was found; set distributed.device=cpu");
  return count;
}

// cudaDeviceGetAttribute() of the CUDA runtime in LibTorch, and values of its enum cudaDeviceAttr.
using GetAttribute = int (*)(int* value, int attribute, int device);
constexpr int kMajor = 75, kMinor = 76;

}  // namespace

bool machine_has_gpu(const std::filesystem::path& devices) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible && visible_gpus(visible).empty()) return false;
  std::error_code error;
  if (!std::filesystem::exists(devices / "nvidiactl", error)) return false;
  const std::string gpu = "nvidia";  // and a number, in a container not always 0
  for (std::filesystem::directory_iterator it(devices, error), end; !error && it != end;
       it.increment(error)) {
    const auto name = it->path().filename().string();
    if (name.starts_with(gpu) && name.size() > gpu.size() &&
        name.find_first_not_of("0123456789", gpu.size()) == name.npos)
      return true;
  }
  return false;
}

void load_gpu_support() { cuda_library(); }

void use_deterministic_operators() {
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // cuBLAS reads it at its start
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicCuDNN(true);
}

std::string gpu_architecture() {
  count_gpus();
  const auto get =
      reinterpret_cast<GetAttribute>(::dlsym(open_cuda_library(), "cudaDeviceGetAttribute"));
  int major = 0, minor = 0;
  check(get && get(&major, kMajor, 0) == 0 && get(&minor, kMinor, 0) == 0,
        "cannot query the compute capability of the GPU");
  return fmt::format("sm_{}{}", major, minor);
}

std::string gpu_name(int index) {
  using GetName = int (*)(char* name, int size, int device);
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto get = driver ? reinterpret_cast<GetName>(::dlsym(driver, "cuDeviceGetName")) : nullptr;
  std::array<char, 256> name{};
  const bool is_known = get && get(name.data(), static_cast<int>(name.size()), index) == 0;
  if (driver) ::dlclose(driver);
  return is_known ? name.data() : "";
}

void use_gpu(int index) {
  const auto count = count_gpus();
  if (index >= count)
    throw config_error(
        fmt::format("no GPU for local rank {}: each rank needs one, this machine has {}; start "
                    "fewer ranks",
                    index, count));
  c10::impl::getDeviceGuardImpl(at::kCUDA)->setDevice(
      {at::kCUDA, static_cast<c10::DeviceIndex>(index)});
}

std::unique_ptr<LaunchGraph> make_cuda_graph() {
  count_gpus();
  const auto make =
      reinterpret_cast<MakeGraph>(::dlsym(open_cuda_library(), "lockstep_make_cuda_graph"));
  check(make != nullptr, "liblockstep_cuda.so lacks lockstep_make_cuda_graph");
  return std::unique_ptr<LaunchGraph>(make());
}

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size,
                                                    std::chrono::milliseconds timeout) {
  const auto make =
      reinterpret_cast<MakeNccl>(::dlsym(open_cuda_library(), "lockstep_make_nccl_backend"));
  check(make != nullptr, "liblockstep_cuda.so lacks lockstep_make_nccl_backend");
  return c10::intrusive_ptr<c10d::Backend>::reclaim(
      make(&store, rank, world_size, timeout.count()));
}

}  // namespace lockstep::distributed
