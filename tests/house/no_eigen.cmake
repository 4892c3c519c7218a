# Run by ctest: cmake -DSOURCE=... -DFOLDER=... -DGENERATOR=... -DCXX=... -P no_eigen.cmake
# Heed is configured where there is no Eigen and no network: one error, in Heed's own words.
file(REMOVE_RECURSE "${FOLDER}")
# Nothing listens on port 9 of this machine, and no other way is open.
foreach(name https_proxy http_proxy HTTPS_PROXY HTTP_PROXY ALL_PROXY all_proxy)
  set(ENV{${name}} "http://127.0.0.1:9")
endforeach()
execute_process(COMMAND ${CMAKE_COMMAND} -S "${SOURCE}" -B "${FOLDER}" -G "${GENERATOR}" -DCMAKE_CXX_COMPILER=${CXX}
    -DCMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON -DHEED_BUILD_TESTS=OFF -DHEED_BUILD_EXAMPLES=OFF -DHEED_BUILD_BENCHMARKS=OFF
  OUTPUT_QUIET ERROR_VARIABLE complaint RESULT_VARIABLE status)
file(REMOVE_RECURSE "${FOLDER}")
string(REGEX MATCHALL "CMake Error" errors "${complaint}")
list(LENGTH errors count)
string(REGEX REPLACE "[ \n]+" " " words "${complaint}")
if(status EQUAL 0 OR NOT count EQUAL 1 OR NOT words MATCHES "Heed needs Eigen 3.4 or newer[.] Install it [(]on Debian or Ubuntu: apt-get install libeigen3-dev[)]")
  message(FATAL_ERROR "${status}, ${count} errors:\n${complaint}")
endif()
