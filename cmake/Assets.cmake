# lockstep_add_assets(TARGET DIRECTORY): bundles the sources of the page in DIRECTORY (checked by TypeScript, bundled by esbuild, both
# from its npm packages, which cmake/setup.sh installs) and puts the result into TARGET.
find_program(LOCKSTEP_NODE node)

function(lockstep_add_assets target directory)
  if(NOT LOCKSTEP_NODE OR NOT EXISTS ${directory}/node_modules/esbuild)
    message(FATAL_ERROR "the npm packages of the dashboard are missing in ${directory}: run make setup")
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${directory}/src/*)
  set(made ${PROJECT_BINARY_DIR}/generated/ui)
  file(MAKE_DIRECTORY ${made})
  add_custom_command(OUTPUT ${made}/embedded_assets.cpp
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${made}/dist
    COMMAND ${LOCKSTEP_NODE} ${directory}/build.mjs --out ${made}/dist
    COMMAND python3 ${PROJECT_SOURCE_DIR}/cmake/embed_assets.py ${made}/dist ${made}/embedded_assets.cpp
    DEPENDS ${sources} ${directory}/build.mjs ${directory}/package-lock.json ${directory}/tsconfig.json
            ${PROJECT_SOURCE_DIR}/cmake/embed_assets.py
    COMMENT "Bundling the dashboard's page" VERBATIM)
  target_sources(${target} PRIVATE ${made}/embedded_assets.cpp)
  # ccache and precompiled headers do not see the embedded files.
  set_source_files_properties(${made}/embedded_assets.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON
    OBJECT_DEPENDS ${made}/embedded_assets.cpp)
endfunction()
