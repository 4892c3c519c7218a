# HEED_ISAS: the instruction sets that kernels are compiled for, the weakest first. Sizes: docs/building.md. A program without
# baseline ends in an ArgumentError on a processor that has none of the others.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(heed_all_isas baseline avx2 avx512)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
  set(heed_all_isas neon)
else()
  set(heed_all_isas baseline)
endif()
set(HEED_ISAS "" CACHE STRING "Instruction sets that kernels are compiled for, some of ${heed_all_isas}; default: all")
if(HEED_ISAS STREQUAL "")
  set(heed_isas ${heed_all_isas})
else()
  foreach(isa IN LISTS HEED_ISAS)
    if(NOT isa IN_LIST heed_all_isas)
      message(FATAL_ERROR "HEED_ISAS has \"${isa}\", Heed knows for ${CMAKE_SYSTEM_PROCESSOR}: ${heed_all_isas}")
    endif()
  endforeach()
  set(heed_isas ${heed_all_isas})
  foreach(isa IN LISTS heed_all_isas)
    if(NOT isa IN_LIST HEED_ISAS)
      list(REMOVE_ITEM heed_isas ${isa})
    endif()
  endforeach()
endif()

# heed_add_kernels(target isa FLAGS...): the kernel bodies, compiled once more for one instruction set.
#
# -march=x86-64, -march=armv8-a and -mno-...: take back what a user's CMAKE_CXX_FLAGS may have switched on, so that a file holds its own instruction
# set and no other, and with it the tuning of GCC 12's -march=native, which costs a third of the speed on Zen.
# -ffp-contract=off: products and sums are fused where the code says so, the same in every kernel. -fno-fast-math: NaN, infinity and
# the order of sums mean something here, whatever the user's own code is built with.
# -fno-lto: what is compiled for an instruction set is machine code, which no other file's code is mixed with at link time.
# -O3 in every build type: the engine stays fast inside a user's debug build. Under a sanitizer -O1: its checks take six times as long
# to compile at -O3.
# EIGEN_FAST_MATH=0: a square root is one, and not an estimate of the processor's, improved by a step.
# -DEigen=...: Eigen's functions compiled here get a namespace of their own and never merge with the host program's.
function(heed_add_kernels target isa)
  target_sources(${target} PRIVATE kernels/${isa}.cpp)
  set(level -O3)
  if(HEED_SANITIZE)
    set(level -O1)
  endif()
  if(HEED_SANITIZE AND isa STREQUAL "baseline" AND "avx2" IN_LIST heed_isas)
    set(level -O0) # CI does not run them there
  endif()
  set(flags ${ARGN} ${level} ${HEED_FLOAT_FLAGS} -fno-lto -fno-exceptions -Wno-ignored-attributes)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC's own AVX-512 header starts from registers that it declares undefined, and then warns of them.
    list(APPEND flags -Wno-uninitialized -Wno-maybe-uninitialized)
  endif()
  set_property(SOURCE kernels/${isa}.cpp APPEND PROPERTY COMPILE_OPTIONS ${flags})
  set_property(SOURCE kernels/${isa}.cpp APPEND PROPERTY COMPILE_DEFINITIONS Eigen=EigenHeed_${isa} EIGEN_DONT_PARALLELIZE EIGEN_FAST_MATH=0)
endfunction()

function(heed_add_all_kernels target)
  set(flags_neon -march=armv8-a -mtune=generic)
  set(flags_baseline "")
  if("avx2" IN_LIST heed_all_isas)
    set(flags_baseline -march=x86-64 -mtune=generic -mno-avx -mno-sse3)
  endif()
  set(flags_avx2 -march=x86-64 -mtune=generic -mavx2 -mfma -mf16c -mno-avx512f)
  set(flags_avx512 -march=x86-64 -mtune=generic -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl)
  foreach(isa IN LISTS heed_isas)
    heed_add_kernels(${target} ${isa} ${flags_${isa}})
    string(TOUPPER ${isa} name)
    set_property(SOURCE kernels/dispatch.cpp APPEND PROPERTY COMPILE_DEFINITIONS HEED_KERNELS_${name})
  endforeach()
endfunction()
