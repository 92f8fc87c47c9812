# For programs and plugins built on Lockstep, its own trainer included.

# _lockstep_check_includes(SOURCES...): refuses sources that include a header of Lockstep that is not public, at configure time and
# again when a source changes.
function(_lockstep_check_includes)
  if(NOT LOCKSTEP_INCLUDE_DIR)  # Lockstep's own build: the architecture test looks at includes there
    return()
  endif()
  foreach(source IN LISTS ARGN)
    file(REAL_PATH "${source}" source BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    if(NOT EXISTS "${source}")
      continue()
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
    file(STRINGS "${source}" includes REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"]lockstep/")
    foreach(include IN LISTS includes)
      string(REGEX REPLACE "^[^<\"]*[<\"]([^>\"]*).*" "\\1" header "${include}")
      if(NOT EXISTS "${LOCKSTEP_INCLUDE_DIR}/${header}")
        file(GLOB public RELATIVE "${LOCKSTEP_INCLUDE_DIR}" "${LOCKSTEP_INCLUDE_DIR}/lockstep/*.h")
        list(JOIN public " " public)
        message(FATAL_ERROR "${source}: <${header}> is not a public header of Lockstep. Public headers: ${public}")
      endif()
    endforeach()
  endforeach()
endfunction()

# lockstep_link_whole(TARGET): links all of Lockstep, unused objects included: parts register themselves, and plugins use
# symbols that a program does not.
function(lockstep_link_whole target)
  if(LOCKSTEP_MISSING)
    list(JOIN LOCKSTEP_MISSING " " missing)
    message(FATAL_ERROR "programs with Lockstep need the development files of these libraries, too: ${missing}")
  endif()
  get_target_property(sources ${target} SOURCES)
  _lockstep_check_includes(${sources})
  target_link_libraries(${target} PRIVATE lockstep::trainer)
  foreach(component core launch tracking data models distributed trainer)
    set_property(TARGET ${target} PROPERTY LINK_LIBRARY_OVERRIDE_lockstep_${component} WHOLE_ARCHIVE)
    set_property(TARGET ${target} PROPERTY "LINK_LIBRARY_OVERRIDE_lockstep::${component}" WHOLE_ARCHIVE)
  endforeach()
  # Plugins find those symbols in the program.
  set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON)
endfunction()

# lockstep_add_plugin(TARGET SOURCES...): a shared object for `plugins:` in a run file, with a stamp of the
# Lockstep and LibTorch versions that it was built for.
function(lockstep_add_plugin target)
  _lockstep_check_includes(${ARGN})
  add_library(${target} MODULE ${ARGN} "${LOCKSTEP_PLUGIN_STAMP_SOURCE}")
  target_link_libraries(${target} PRIVATE lockstep::headers)
  set_target_properties(${target} PROPERTIES PREFIX "")
endfunction()

# lockstep_add_sink_plugin(TARGET SOURCES...): the same for `tracking.plugins:`. The tracking agent loads it too, so it
# does not use LibTorch.
function(lockstep_add_sink_plugin target)
  _lockstep_check_includes(${ARGN})
  add_library(${target} MODULE ${ARGN} "${LOCKSTEP_PLUGIN_STAMP_SOURCE}")
  target_link_libraries(${target} PRIVATE lockstep::sink_headers)
  target_compile_definitions(${target} PRIVATE LOCKSTEP_WITHOUT_TORCH)
  set_target_properties(${target} PROPERTIES PREFIX "")
endfunction()
