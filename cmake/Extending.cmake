# For programs and plugins built on Lockstep, its own trainer included.

# lockstep_link_whole(TARGET): links all of Lockstep, unused objects included: parts register themselves, and plugins use
# symbols that a program does not.
function(lockstep_link_whole target)
  target_link_libraries(${target} PRIVATE lockstep::trainer)
  foreach(component core launch tracking data models distributed trainer)
    set_property(TARGET ${target} PROPERTY LINK_LIBRARY_OVERRIDE_lockstep_${component} WHOLE_ARCHIVE)
    set_property(TARGET ${target} PROPERTY "LINK_LIBRARY_OVERRIDE_lockstep::${component}" WHOLE_ARCHIVE)
  endforeach()
  # Plugins find those symbols in the program.
  set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON)
endfunction()

# lockstep_add_plugin(TARGET SOURCES...): a shared object for `plugins:` in a run file, with the stamp that says which
# Lockstep and LibTorch it fits.
function(lockstep_add_plugin target)
  add_library(${target} MODULE ${ARGN} "${LOCKSTEP_PLUGIN_STAMP_SOURCE}")
  target_link_libraries(${target} PRIVATE lockstep::headers)
  set_target_properties(${target} PROPERTIES PREFIX "")
endfunction()

# lockstep_add_sink_plugin(TARGET SOURCES...): the same for `tracking.plugins:`. It is loaded by the tracking agent too, so it
# sees no LibTorch.
function(lockstep_add_sink_plugin target)
  add_library(${target} MODULE ${ARGN} "${LOCKSTEP_PLUGIN_STAMP_SOURCE}")
  target_link_libraries(${target} PRIVATE lockstep::sink_headers)
  target_compile_definitions(${target} PRIVATE LOCKSTEP_WITHOUT_TORCH)
  set_target_properties(${target} PROPERTIES PREFIX "")
endfunction()
