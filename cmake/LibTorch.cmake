# lockstep::torch: LibTorch as an imported target, CPU part only; lockstep::torch_cuda: the CUDA part, if it is installed.
#
# LibTorch comes from, in this order:
#   -DTorch_DIR=.../share/cmake/Torch   a custom LibTorch: its CMake folder
#   -DLOCKSTEP_PYTHON=/path/to/python   the wheel in that Python's environment (default: .venv of this checkout)
# Only the version is read from LibTorch's CMake package, which requires a CUDA toolkit and links every program to CUDA.

# `make setup` installs the first, which CI tests; tests/torch_versions.py has built and tested the others.
set(LOCKSTEP_TORCH_TESTED 2.11 2.13 2.14 2.15)

# Sets `root`, the folder of include/ and lib/, and `version`.
macro(_lockstep_find_package)
  get_filename_component(package "${Torch_DIR}" ABSOLUTE)
  if(NOT EXISTS "${package}/TorchConfigVersion.cmake")
    message(FATAL_ERROR "Torch_DIR is '${Torch_DIR}', which has no TorchConfigVersion.cmake: pass the folder share/cmake/Torch "
                        "of a LibTorch, or leave Torch_DIR out to use the wheel of LOCKSTEP_PYTHON")
  endif()
  include("${package}/TorchConfigVersion.cmake")
  set(version "${PACKAGE_VERSION}")
  get_filename_component(root "${package}/../../.." ABSOLUTE)
endmacro()

macro(_lockstep_find_wheel python)
  execute_process(
    COMMAND "${python}" -c "import importlib.metadata as m; d = m.distribution('torch'); print(d.locate_file('')); print(d.version)"
    OUTPUT_VARIABLE answer RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed)
    message(FATAL_ERROR "LibTorch not found: '${python}' has no package torch. Run 'make setup', or pass a Python that has it with "
                        "-DLOCKSTEP_PYTHON=..., or a LibTorch with -DTorch_DIR=...")
  endif()
  string(REPLACE "\n" ";" answer "${answer}")
  list(GET answer 0 site)
  list(GET answer 1 version)
  file(REAL_PATH "${site}" site)
  set(root "${site}/torch")
endmacro()

function(_lockstep_import_torch)
  if(Torch_DIR)
    _lockstep_find_package()
  else()
    _lockstep_find_wheel("${LOCKSTEP_PYTHON}")
  endif()
  string(REGEX REPLACE "\\+.*" "" version "${version}")
  foreach(file include/torch/csrc/api/include/torch/torch.h lib/libtorch_cpu.so lib/libc10.so)
    if(NOT EXISTS "${root}/${file}")
      message(FATAL_ERROR "LibTorch ${version} in ${root} is incomplete: ${file} is missing")
    endif()
  endforeach()
  # NVIDIA's wheels are installed next to LibTorch's.
  get_filename_component(nvidia "${root}/../nvidia" ABSOLUTE)

  add_library(lockstep_torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(lockstep_torch SYSTEM INTERFACE "${root}/include" "${root}/include/torch/csrc/api/include")
  target_compile_definitions(lockstep_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO FMT_HEADER_ONLY=1)
  target_link_directories(lockstep_torch INTERFACE "${root}/lib")
  target_link_libraries(lockstep_torch INTERFACE torch_cpu c10 pthread)
  # torch_cpu depends on CUDA runtime libraries next to it; only the dynamic linker needs to find them.
  if(NOT LOCKSTEP_RELEASE)
    target_link_options(lockstep_torch INTERFACE "LINKER:-rpath,${root}/lib")
  endif()
  target_link_options(lockstep_torch INTERFACE LINKER:--allow-shlib-undefined
                      "LINKER:-rpath-link,${root}/lib:${nvidia}/cu13/lib")

  # The default wheel contains some CUDA headers, but not those that they include.
  set(missing "")
  foreach(header nccl/include/nccl.h cu13/include/cuda_runtime.h cu13/include/cublas_v2.h cu13/include/crt/host_defines.h cu13/include/nv/target)
    if(NOT EXISTS "${nvidia}/${header}")
      string(APPEND missing " ${header}")
    endif()
  endforeach()
  if(EXISTS "${root}/lib/libtorch_cuda.so" AND missing)
    message(STATUS "LibTorch: building without CUDA: missing in ${nvidia}:${missing} (for CUDA: pip install 'cuda-toolkit[cccl,crt]', "
                   "of the version in cmake/requirements-gpu.txt)")
  endif()
  if(NOT missing)
    add_library(lockstep_torch_cuda INTERFACE IMPORTED GLOBAL)
    target_include_directories(lockstep_torch_cuda SYSTEM INTERFACE "${nvidia}/cu13/include" "${nvidia}/nccl/include")
    target_compile_definitions(lockstep_torch_cuda INTERFACE USE_C10D_NCCL)
    target_link_libraries(lockstep_torch_cuda INTERFACE lockstep_torch torch_cuda c10_cuda)
  endif()
  set(LOCKSTEP_TORCH_VERSION "${version}" PARENT_SCOPE)
  set(LOCKSTEP_TORCH_LIB "${root}/lib" PARENT_SCOPE)
endfunction()

if(NOT TARGET lockstep_torch)
  _lockstep_import_torch()
  add_library(lockstep::torch ALIAS lockstep_torch)
  if(TARGET lockstep_torch_cuda)
    add_library(lockstep::torch_cuda ALIAS lockstep_torch_cuda)
  endif()
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" torch_minor "${LOCKSTEP_TORCH_VERSION}")
  if(NOT torch_minor IN_LIST LOCKSTEP_TORCH_TESTED)
    list(JOIN LOCKSTEP_TORCH_TESTED ", " tested)
    message(WARNING "LibTorch ${LOCKSTEP_TORCH_VERSION} was not tested with this Lockstep; ${tested} were")
  endif()
  message(STATUS "LibTorch ${LOCKSTEP_TORCH_VERSION}: ${LOCKSTEP_TORCH_LIB}")
endif()
