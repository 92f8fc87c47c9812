# With LOCKSTEP_RELEASE, programs link those of Debian's libraries statically that have a static half. The others (fmt, cpp-httplib,
# libzip, oniguruma, and OpenSSL, which cpp-httplib shares with us) are copied next to the programs by cmake/dist.py.
if(LOCKSTEP_RELEASE)
  set(LOCKSTEP_STATIC_LIBRARIES z png16 jpeg webp webpdemux zstd utf8proc yaml-cpp)
  set(LOCKSTEP_STATIC_DIR ${PROJECT_BINARY_DIR}/static-libraries)
  file(MAKE_DIRECTORY ${LOCKSTEP_STATIC_DIR})
  foreach(name IN LISTS LOCKSTEP_STATIC_LIBRARIES)
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=lib${name}.a OUTPUT_VARIABLE archive OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT IS_ABSOLUTE "${archive}")
      message(FATAL_ERROR "lib${name}.a is missing: run make setup")
    endif()
    file(REAL_PATH "${archive}" archive)
    file(CREATE_LINK "${archive}" ${LOCKSTEP_STATIC_DIR}/lib${name}.a SYMBOLIC)
    list(APPEND hidden lib${name}.a)
  endforeach()
  # Found before the shared halves, by -lNAME and by find_package().
  link_directories(BEFORE ${LOCKSTEP_STATIC_DIR})
  set(ZLIB_LIBRARY ${LOCKSTEP_STATIC_DIR}/libz.a CACHE FILEPATH "" FORCE)
  set(PNG_LIBRARY ${LOCKSTEP_STATIC_DIR}/libpng16.a CACHE FILEPATH "" FORCE)
  set(JPEG_LIBRARY ${LOCKSTEP_STATIC_DIR}/libjpeg.a CACHE FILEPATH "" FORCE)
  # LibTorch must not use the programs' copies: it has its own of some of them.
  list(JOIN hidden ":" hidden)
  add_link_options("LINKER:--exclude-libs,${hidden}")
endif()

# lockstep_prefer_static(TARGET NAME): an imported target of a shared library stands for its static half.
function(lockstep_prefer_static target name)
  if(LOCKSTEP_RELEASE)
    foreach(configuration "" _NONE _RELEASE _RELWITHDEBINFO)
      set_target_properties(${target} PROPERTIES IMPORTED_LOCATION${configuration} ${LOCKSTEP_STATIC_DIR}/lib${name}.a)
    endforeach()
  endif()
endfunction()

# lockstep_use_copied_libraries(TARGET): libraries of the libraries are found next to them, too.
function(lockstep_use_copied_libraries target)
  if(LOCKSTEP_RELEASE)
    target_link_options(${target} PRIVATE LINKER:--disable-new-dtags)
  endif()
endfunction()
