#pragma once

// The door to io/: files. It opens with heed::heed.
//
//   safetensors   named arrays of numbers, written, and read without trust in what the file says

#include "heed/core/config.hpp"

#include "heed/io/safetensors.hpp"
