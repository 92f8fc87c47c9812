# The installed tree: bin/, lib/lockstep/ with what the programs need, and the package for find_package(lockstep). The package
# defines lockstep::headers for plugins, lockstep::c for programs that use the C interface and, where the libraries that
# Lockstep links are installed, lockstep::trainer, with the functions of cmake/Extending.cmake. The tree may be
# moved; LibTorch is found when it is used (launch/environment/torch_folder).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# lockstep_add_installed_library(COMPONENTS...): lockstep_all, their objects in one static library, which the package calls
# lockstep::trainer. As one library per component, templates that several components use would be in each.
function(lockstep_add_installed_library)
  set(libraries)
  foreach(component IN LISTS ARGN)
    list(APPEND objects $<TARGET_OBJECTS:${component}>)
    get_target_property(linked ${component} LINK_LIBRARIES)
    list(APPEND libraries ${linked})
  endforeach()
  list(FILTER libraries EXCLUDE REGEX "lockstep(::|_)")
  list(REMOVE_DUPLICATES libraries)
  add_library(lockstep_all STATIC ${objects})
  set_target_properties(lockstep_all PROPERTIES LINKER_LANGUAGE CXX EXPORT_NAME trainer)
  target_include_directories(lockstep_all INTERFACE $<INSTALL_INTERFACE:include>)
  target_compile_features(lockstep_all INTERFACE cxx_std_20)
  target_link_libraries(lockstep_all PUBLIC lockstep::torch ${libraries})
endfunction()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
install(TARGETS lockstep RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(LOCKSTEP_TORCH)
  # Headers for plugins: sinks without LibTorch, all others with it.
  foreach(headers headers sink_headers)
    add_library(lockstep_${headers} INTERFACE)
    add_library(lockstep::${headers} ALIAS lockstep_${headers})
    set_target_properties(lockstep_${headers} PROPERTIES EXPORT_NAME ${headers})
    target_include_directories(lockstep_${headers} INTERFACE
      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>
      $<INSTALL_INTERFACE:include>)
    target_compile_features(lockstep_${headers} INTERFACE cxx_std_20)
    target_link_libraries(lockstep_${headers} INTERFACE $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
  endforeach()
  target_link_libraries(lockstep_headers INTERFACE lockstep::torch)

  get_property(components GLOBAL PROPERTY LOCKSTEP_COMPONENTS)
  list(REMOVE_ITEM components lockstep_dashboard lockstep_sweep)  # parts of the program lockstep only
  lockstep_add_installed_library(${components})
  install(TARGETS lockstep-data RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(PROGRAMS $<TARGET_FILE:lockstep_trainer_program> DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME lockstep-trainer)
  install(TARGETS lockstep-trainer RUNTIME DESTINATION lib/lockstep)
  install(TARGETS lockstep_headers lockstep_sink_headers EXPORT lockstepHeaders)
  install(TARGETS lockstep_c EXPORT lockstepHeaders LIBRARY DESTINATION lib)
  install(FILES include/lockstep.h include/lockstep.f90 DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(TARGETS lockstep_all EXPORT lockstepTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  foreach(library lockstep_cuda lockstep_parquet lockstep_store)
    if(TARGET ${library})
      install(TARGETS ${library} LIBRARY DESTINATION lib)
    endif()
  endforeach()
  install(DIRECTORY include/lockstep ${PROJECT_BINARY_DIR}/generated/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h")
  # Where a build from source looks first for LibTorch, here and in its installation.
  if(NOT LOCKSTEP_RELEASE)
    get_filename_component(torch_dir ${LOCKSTEP_TORCH_LIB} DIRECTORY)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/lib/lockstep/torch-dir CONTENT "${torch_dir}\n")
    install(FILES ${PROJECT_BINARY_DIR}/lib/lockstep/torch-dir DESTINATION lib/lockstep)
  else()
    # A release needs nothing else to build plugins.
    get_target_property(json nlohmann_json::nlohmann_json INTERFACE_INCLUDE_DIRECTORIES)
    list(GET json 0 json)
    install(DIRECTORY ${json}/nlohmann DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  endif()

  install(EXPORT lockstepHeaders NAMESPACE lockstep:: DESTINATION ${package_dir})
  install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION ${package_dir})
  set(package_files ${PROJECT_BINARY_DIR}/cmake_package)
  configure_package_config_file(cmake/lockstepConfig.cmake.in ${package_files}/lockstepConfig.cmake
    INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_BINDIR)
  write_basic_package_version_file(${package_files}/lockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  # find_package() looks here if build/bin is on the PATH. It forgets this directory, so that the next try finds the installation.
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/lockstepConfig.cmake @ONLY CONTENT [[
set(lockstep_FOUND FALSE)
set(lockstep_NOT_FOUND_MESSAGE "@PROJECT_BINARY_DIR@ is the build directory of Lockstep. Install it:
  cmake --install @PROJECT_BINARY_DIR@ --prefix PREFIX
and configure this project with -DCMAKE_PREFIX_PATH=PREFIX")
unset(lockstep_DIR CACHE)
]])
  install(FILES ${package_files}/lockstepConfig.cmake ${package_files}/lockstepConfigVersion.cmake
                cmake/LibTorch.cmake cmake/Extending.cmake cmake/plugin_stamp.cpp DESTINATION ${package_dir})
endif()
