#pragma once

// Catch2 2.x (Debian 12) and 3.x (Debian 13, Ubuntu 24.04, fetched) under one include.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
