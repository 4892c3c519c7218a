#pragma once

// The door to io/: files. Link heed::heed.
//
//   safetensors   named arrays of numbers, written, and read without trust in what the file says

#include "heed/core/config.hpp"

#include "heed/io/safetensors.hpp"
