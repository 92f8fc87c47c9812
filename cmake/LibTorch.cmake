# lockstep::torch: LibTorch as an imported target, CPU half only; lockstep::torch_cuda: the CUDA half, where it is installed.
#
# LibTorch comes from, in this order:
#   -DTorch_DIR=.../share/cmake/Torch   one's own LibTorch, found by its own CMake package
#   -DLOCKSTEP_PYTHON=/path/to/python   the wheel in that Python's environment (default: .venv of this checkout)
# The wheel's own CMake package is not used: it asks for a CUDA toolkit, and it links every program to CUDA.

set(LOCKSTEP_TORCH_TESTED 2.11.0)

function(_lockstep_import_wheel python)
  execute_process(
    COMMAND "${python}" -c "import importlib.metadata as m; d = m.distribution('torch'); print(d.locate_file('')); print(d.version)"
    OUTPUT_VARIABLE answer RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed)
    message(FATAL_ERROR "LibTorch not found: '${python}' has no torch. Run 'make setup', or name a Python that has the wheel with "
                        "-DLOCKSTEP_PYTHON=..., or a LibTorch with -DTorch_DIR=...")
  endif()
  string(REPLACE "\n" ";" answer "${answer}")
  list(GET answer 0 site)
  list(GET answer 1 version)
  string(REGEX REPLACE "\\+.*" "" version "${version}")
  file(REAL_PATH "${site}" site)
  set(torch "${site}/torch")
  set(nvidia "${site}/nvidia")

  add_library(lockstep_torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(lockstep_torch SYSTEM INTERFACE "${torch}/include" "${torch}/include/torch/csrc/api/include")
  target_compile_definitions(lockstep_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO FMT_HEADER_ONLY=1)
  target_link_directories(lockstep_torch INTERFACE "${torch}/lib")
  target_link_libraries(lockstep_torch INTERFACE torch_cpu c10 pthread)
  # torch_cpu names CUDA runtime libraries that sit beside it; only the dynamic linker needs to find them.
  target_link_options(lockstep_torch INTERFACE "LINKER:-rpath,${torch}/lib" LINKER:--allow-shlib-undefined
                      "LINKER:-rpath-link,${torch}/lib:${nvidia}/cu13/lib")

  if(EXISTS "${nvidia}/nccl/include/nccl.h" AND EXISTS "${nvidia}/cu13/include/cuda_runtime.h" AND EXISTS "${nvidia}/cu13/include/cublas_v2.h")
    add_library(lockstep_torch_cuda INTERFACE IMPORTED GLOBAL)
    target_include_directories(lockstep_torch_cuda SYSTEM INTERFACE "${nvidia}/cu13/include" "${nvidia}/nccl/include")
    target_compile_definitions(lockstep_torch_cuda INTERFACE USE_C10D_NCCL)
    target_link_libraries(lockstep_torch_cuda INTERFACE lockstep_torch torch_cuda c10_cuda)
  endif()
  set(LOCKSTEP_TORCH_VERSION "${version}" PARENT_SCOPE)
  set(LOCKSTEP_TORCH_LIB "${torch}/lib" PARENT_SCOPE)
endfunction()

macro(_lockstep_import_package)
  find_package(Torch REQUIRED)
  add_library(lockstep_torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(lockstep_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
  target_compile_definitions(lockstep_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO FMT_HEADER_ONLY=1)
  get_filename_component(_torch_root "${Torch_DIR}/../../.." ABSOLUTE)
  target_link_directories(lockstep_torch INTERFACE "${_torch_root}/lib")
  target_link_libraries(lockstep_torch INTERFACE torch_cpu c10 pthread)
  target_link_options(lockstep_torch INTERFACE "LINKER:-rpath,${_torch_root}/lib" LINKER:--allow-shlib-undefined)
  set(LOCKSTEP_TORCH_VERSION "${Torch_VERSION}")
  set(LOCKSTEP_TORCH_LIB "${_torch_root}/lib")
endmacro()

if(NOT TARGET lockstep_torch)
  if(Torch_DIR)
    _lockstep_import_package()
  else()
    _lockstep_import_wheel("${LOCKSTEP_PYTHON}")
  endif()
  add_library(lockstep::torch ALIAS lockstep_torch)
  if(TARGET lockstep_torch_cuda)
    add_library(lockstep::torch_cuda ALIAS lockstep_torch_cuda)
  endif()
  if(NOT LOCKSTEP_TORCH_VERSION VERSION_EQUAL LOCKSTEP_TORCH_TESTED)
    message(WARNING "LibTorch ${LOCKSTEP_TORCH_VERSION} was not tested with this Lockstep; ${LOCKSTEP_TORCH_TESTED} was")
  endif()
  message(STATUS "LibTorch ${LOCKSTEP_TORCH_VERSION}: ${LOCKSTEP_TORCH_LIB}")
endif()
