# HEED_ISAS: the instruction sets that kernels are compiled for on this processor, the weakest first.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(HEED_ISAS baseline avx2 avx512)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
  set(HEED_ISAS neon)
else()
  set(HEED_ISAS baseline)
endif()

# heed_add_kernels(target isa FLAGS...): the kernel bodies, compiled once more for one instruction set.
#
# -march=x86-64, -march=armv8-a and -mno-...: take back what a user's CMAKE_CXX_FLAGS may have switched on, so that a file holds its own instruction
# set and no other, and with it the tuning of GCC 12's -march=native, which costs a third of the speed on Zen.
# -ffp-contract=off: products and sums are fused where the code says so, the same in every kernel. -fno-fast-math: NaN, infinity and
# the order of sums mean something here, whatever the user's own code is built with.
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
  if(HEED_SANITIZE AND isa STREQUAL "baseline" AND "avx2" IN_LIST HEED_ISAS)
    set(level -O0) # CI does not run them there
  endif()
  set(flags ${ARGN} ${level} -fno-fast-math -ffp-contract=off -fno-exceptions -Wno-ignored-attributes)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC's own AVX-512 header starts from registers that it declares undefined, and then warns of them.
    list(APPEND flags -Wno-uninitialized -Wno-maybe-uninitialized)
  endif()
  set_property(SOURCE kernels/${isa}.cpp APPEND PROPERTY COMPILE_OPTIONS ${flags})
  set_property(SOURCE kernels/${isa}.cpp APPEND PROPERTY COMPILE_DEFINITIONS Eigen=EigenHeed_${isa} EIGEN_DONT_PARALLELIZE EIGEN_FAST_MATH=0)
endfunction()

function(heed_add_all_kernels target)
  if("avx512" IN_LIST HEED_ISAS)
    heed_add_kernels(${target} baseline -march=x86-64 -mtune=generic -mno-avx -mno-sse3)
    heed_add_kernels(${target} avx2 -march=x86-64 -mtune=generic -mavx2 -mfma -mf16c -mno-avx512f)
    heed_add_kernels(${target} avx512 -march=x86-64 -mtune=generic -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl)
    set_property(SOURCE kernels/dispatch.cpp APPEND PROPERTY COMPILE_DEFINITIONS HEED_KERNELS_X86)
  elseif("neon" IN_LIST HEED_ISAS)
    heed_add_kernels(${target} neon -march=armv8-a -mtune=generic)
    set_property(SOURCE kernels/dispatch.cpp APPEND PROPERTY COMPILE_DEFINITIONS HEED_KERNELS_AARCH64)
  else()
    heed_add_kernels(${target} baseline)
  endif()
endfunction()
