#pragma once

// Catch2 2.x (Debian 12) and 3.x (Debian 13, Ubuntu 24.04, fetched) under one include.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

#if defined(HEED_SANITIZED)
// A test of several scalars is compiled for the first alone: with sanitizers all of them took ten minutes.
// The kernels' double has 8 lanes with AVX-512, as float has with AVX2, which is run as well.
#undef TEMPLATE_TEST_CASE
#define TEMPLATE_TEST_CASE(name, tags, first, ...) INTERNAL_CATCH_TEMPLATE_TEST_CASE(name, tags, first)
#endif
