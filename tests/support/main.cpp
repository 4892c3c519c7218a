// Catch2 2.x has its main function in a header; 3.x brings it as a library (see CMakeLists.txt).
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
