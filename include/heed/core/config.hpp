#pragma once

// What every header of Heed includes first: the language that Heed is written in, and HEED_EXPORT, which
// marks what the compiled libraries offer to programs (the header is made by CMake and installed with the
// others; see docs/building.md).

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "Heed needs C++20: compile with -std=c++20"
// A file that does not exist ends the compilation here, before the pages of errors that would follow.
#include "heed/needs_cpp20.hpp"
#endif

#include "heed/core/export.hpp"
