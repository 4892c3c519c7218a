# What the folders of tests/ are built with: heed_test, heed_kernel_test and heed_patient_tests.

set(heed_test_data "${PROJECT_SOURCE_DIR}/tests/data")
set(heed_test_support "${PROJECT_SOURCE_DIR}/tests/support")

# heed_test(name SOURCES... [LABELS ...] [COUNTS_ALLOCATIONS]): one Catch2 program, one ctest entry.
# COUNTS_ALLOCATIONS: the program replaces operator new. At -O1 GCC leaves allocations out, and sees operator delete and not operator new.
function(heed_test name)
  cmake_parse_arguments(ARG "COUNTS_ALLOCATIONS" "" "SOURCES;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  heed_options(${name})
  target_include_directories(${name} PRIVATE ${heed_test_support})
  # Fast: a tenth of the compilation. An exception that nobody expects then ends its test case at once.
  target_compile_definitions(${name} PRIVATE HEED_TEST_DATA="${heed_test_data}" CATCH_CONFIG_FAST_COMPILE)
  if(HEED_SANITIZE)
    target_compile_definitions(${name} PRIVATE HEED_SANITIZED)
  endif()
  target_link_libraries(${name} PRIVATE heed::heed heed_test_main nlohmann_json::nlohmann_json)
  if(ARG_COUNTS_ALLOCATIONS AND CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${name} PRIVATE -O2)
  elseif(HEED_PRECOMPILE_TEST_HEADERS AND NOT name STREQUAL "test_version")
    target_precompile_headers(${name} REUSE_FROM test_version)
  endif()
  # GCC warns of std::string's own code, each version in another way, and from precompiled headers it says so.
  if(HEED_PRECOMPILE_TEST_HEADERS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${name} PRIVATE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
endfunction()

# heed_kernel_test(name ...): a test of the engine, which ctest also runs with every weaker instruction set.
function(heed_kernel_test name)
  heed_test(${name} ${ARGN})
  get_test_property(${name} LABELS labels)
  set(weaker ${heed_isas})
  list(POP_BACK weaker)
  foreach(isa IN LISTS weaker)
    add_test(NAME ${name}.${isa} COMMAND ${name})
    set_tests_properties(${name}.${isa} PROPERTIES ENVIRONMENT "HEED_ISA=${isa}" LABELS "${labels}")
  endforeach()
endfunction()

# The last line of a folder with tests. Whether a test passes depends on what it finds, not on how long a busy machine takes for it:
# 25 minutes, if nothing is said.
function(heed_patient_tests)
  get_property(tests DIRECTORY PROPERTY TESTS)
  if(tests)
    set_tests_properties(${tests} PROPERTIES TIMEOUT 86400)
  endif()
endfunction()
