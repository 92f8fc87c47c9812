# The installed package: find_package(lockstep) defines lockstep::trainer and its parts, lockstep::headers for plugins, and
# the functions of cmake/Extending.cmake.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

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
    target_link_libraries(lockstep_${headers} INTERFACE nlohmann_json::nlohmann_json)
  endforeach()
  target_link_libraries(lockstep_headers INTERFACE lockstep::torch)

  get_property(components GLOBAL PROPERTY LOCKSTEP_COMPONENTS)
  install(TARGETS lockstep-trainer lockstep-data RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(TARGETS ${components} lockstep_headers lockstep_sink_headers EXPORT lockstepTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  foreach(library lockstep_cuda lockstep_parquet lockstep_store)
    if(TARGET ${library})
      install(TARGETS ${library} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    endif()
  endforeach()
  install(DIRECTORY include/lockstep ${PROJECT_BINARY_DIR}/generated/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h")

  install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION ${package_dir})
  configure_package_config_file(cmake/lockstepConfig.cmake.in ${PROJECT_BINARY_DIR}/lockstepConfig.cmake
    INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/lockstepConfig.cmake ${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake
                cmake/LibTorch.cmake cmake/Extending.cmake cmake/plugin_stamp.cpp DESTINATION ${package_dir})
endif()
