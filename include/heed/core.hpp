#pragma once

// The door to core/: what every other room stands on. Nothing here knows what attention is.
//
//   error            exceptions, which name the argument and all sizes
//   view, eigen      a matrix in memory of the caller's, and the way to it from Eigen without a copy
//   executor         threads: an interface for a pool of yours, and a ThreadPool
//   workspace        scratch memory that plans use again and again
//   random           the random numbers of CPython
//   memory           the memory that things take, counted before it is taken
//   token            the number of a token
//   scalar           which numbers Heed computes with
//   isa, version     the instruction set that runs here; the version of the library
//
// Beneath these, for the other rooms:
//
//   config                          what every header includes first
//   index, scalar_type              the type of sizes; a scalar type as a value
//   eigen_concepts                  what an Eigen matrix is, said without Eigen
//   float_bits, float_environment   NaN told by its bits; the rounding of the caller on every thread
//   share_work, kept_exception      how threads share a run; what a caller's function throws inside it

#include "heed/core/config.hpp"

#include "heed/core/eigen.hpp"
#include "heed/core/error.hpp"
#include "heed/core/executor.hpp"
#include "heed/core/isa.hpp"
#include "heed/core/memory.hpp"
#include "heed/core/random.hpp"
#include "heed/core/scalar.hpp"
#include "heed/core/token.hpp"
#include "heed/core/version.hpp"
#include "heed/core/view.hpp"
#include "heed/core/workspace.hpp"
