# lockstep_add_component(NAME [TORCH] [EXCEPT REGEX ...] [DEPENDS ...]): the static library of all sources of one folder and its
# sub-folders, except those whose relative path begins with one of EXCEPT; lockstep::NAME. TORCH components link LibTorch.
# Components of the same kind share one precompiled header.

add_library(lockstep_warnings INTERFACE)
target_compile_options(lockstep_warnings INTERFACE -Wall -Wextra -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers -Wshadow=local -Werror
  # g++ 12 has false positives in string concatenation.
  -Wno-error=array-bounds -Wno-error=stringop-overflow -Wno-error=stringop-overread -Wno-error=restrict)

# lockstep_precompile(TARGET HEADERS): uses the precompiled header of lockstep_pch_HEADERS, plain, torch or test.
function(lockstep_precompile target headers)
  if(NOT LOCKSTEP_PRECOMPILE)
    return()
  endif()
  target_precompile_headers(${target} REUSE_FROM lockstep_pch_${headers})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    # The header was compiled with -fPIC, which works for a program too; -fPIE would not match.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()

function(lockstep_use_torch target)
  target_link_libraries(${target} PUBLIC lockstep::torch)
  lockstep_precompile(${target} torch)
endfunction()

function(lockstep_add_precompiled_header headers)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FILES;DEPENDS")
  if(LOCKSTEP_PRECOMPILE)
    add_library(lockstep_pch_${headers} STATIC ${PROJECT_SOURCE_DIR}/cmake/pch.cpp)
    target_link_libraries(lockstep_pch_${headers} PRIVATE ${arg_DEPENDS})
    target_precompile_headers(lockstep_pch_${headers} PRIVATE ${arg_FILES})
  endif()
endfunction()

lockstep_add_precompiled_header(plain FILES ${PROJECT_SOURCE_DIR}/cmake/pch_plain.h DEPENDS fmt::fmt nlohmann_json::nlohmann_json)
if(LOCKSTEP_TORCH)
  # As in the build of LibTorch, also in a Debug build: classes in its headers (at::RecordFunction) have other members without it.
  target_compile_definitions(lockstep_torch INTERFACE $<$<CONFIG:Debug>:NDEBUG>)
  lockstep_add_precompiled_header(torch FILES ${PROJECT_SOURCE_DIR}/cmake/pch_torch.h DEPENDS lockstep::torch nlohmann_json::nlohmann_json)
endif()

# lockstep_set_library_paths(TARGET PATHS...): where a program or shared library finds libraries, in the build tree and installed.
# The same paths in both: CMake ends those that it changes at installation with a colon, and the dynamic loader reads an empty path as
# the current directory.
function(lockstep_set_library_paths target)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${ARGN}" BUILD_WITH_INSTALL_RPATH ON)
endfunction()

# lockstep_merge_sources(TARGET): several files per compiler run. Most of a file's time goes into headers and the templates that
# several files use, so this halves a clean build; names in anonymous namespaces must therefore differ within a folder.
function(lockstep_merge_sources target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${LOCKSTEP_MERGE_SOURCES} UNITY_BUILD_BATCH_SIZE 8)
  if(LOCKSTEP_MERGE_SOURCES)
    # The compiler treats merged files as headers, and warns about anonymous namespaces in them.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

function(lockstep_add_component name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH" "" "EXCEPT;DEPENDS")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cpp)
  foreach(pattern IN LISTS arg_EXCEPT)
    list(FILTER sources EXCLUDE REGEX "^${pattern}")
  endforeach()
  add_library(lockstep_${name} STATIC ${sources})
  add_library(lockstep::${name} ALIAS lockstep_${name})
  set_target_properties(lockstep_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(lockstep_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated> $<INSTALL_INTERFACE:include>)
  target_compile_features(lockstep_${name} PUBLIC cxx_std_20)
  target_link_libraries(lockstep_${name} PUBLIC ${arg_DEPENDS} PRIVATE $<BUILD_INTERFACE:lockstep_warnings>)
  if(arg_TORCH)
    lockstep_use_torch(lockstep_${name})
  else()
    target_link_libraries(lockstep_${name} PRIVATE fmt::fmt)
    lockstep_precompile(lockstep_${name} plain)
  endif()
  lockstep_merge_sources(lockstep_${name})
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_COMPONENTS lockstep_${name})
endfunction()
