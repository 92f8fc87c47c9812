# lockstep::parquet: Arrow's and Parquet's C++ libraries out of the pyarrow wheel in the environment of LOCKSTEP_PYTHON, as an
# imported target. Without pyarrow there is no such target, and the dataset parquet and paths in
# buckets report what to install. lockstep_arrow_s3: Arrow's S3 file system.
set(LOCKSTEP_ARROW_TESTED 26.0.1)

execute_process(
  COMMAND "${LOCKSTEP_PYTHON}" -c "import importlib.metadata as m; d = m.distribution('pyarrow'); print(d.locate_file('')); print(d.version)"
  OUTPUT_VARIABLE answer RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT failed)
  string(REPLACE "\n" ";" answer "${answer}")
  list(GET answer 0 site)
  list(GET answer 1 LOCKSTEP_ARROW_VERSION)
  file(REAL_PATH "${site}/pyarrow" LOCKSTEP_ARROW_LIB)
  file(GLOB arrow_libraries "${LOCKSTEP_ARROW_LIB}/libarrow.so.*00" "${LOCKSTEP_ARROW_LIB}/libparquet.so.*00")
  list(LENGTH arrow_libraries found)
  if(found EQUAL 2 AND EXISTS "${LOCKSTEP_ARROW_LIB}/include/parquet/arrow/reader.h")
    add_library(lockstep_arrow INTERFACE IMPORTED GLOBAL)
    target_include_directories(lockstep_arrow SYSTEM INTERFACE "${LOCKSTEP_ARROW_LIB}/include")
    target_link_libraries(lockstep_arrow INTERFACE ${arrow_libraries})
    add_library(lockstep::arrow ALIAS lockstep_arrow)
    file(GLOB arrow_s3 "${LOCKSTEP_ARROW_LIB}/libarrow_s3.so.*00")
    if(arrow_s3)
      add_library(lockstep_arrow_s3 INTERFACE IMPORTED GLOBAL)
      target_link_libraries(lockstep_arrow_s3 INTERFACE ${arrow_s3})
    endif()
    if(NOT LOCKSTEP_ARROW_VERSION VERSION_EQUAL LOCKSTEP_ARROW_TESTED)
      message(WARNING "pyarrow ${LOCKSTEP_ARROW_VERSION} was not tested with this Lockstep; ${LOCKSTEP_ARROW_TESTED} was")
    endif()
    message(STATUS "Arrow ${LOCKSTEP_ARROW_VERSION}: ${LOCKSTEP_ARROW_LIB}")
  endif()
endif()
if(NOT TARGET lockstep_arrow)
  message(STATUS "Arrow: not found (pyarrow is not installed), so the dataset parquet is not available")
endif()
