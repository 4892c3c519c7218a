# The libraries that Heed is measured beside, those of them that are installed. Each is one file behind peers/peer.hpp and an object
# library of its own, so that no library's headers and definitions reach another's file.

# heed_bench_peer(name definition targets...)
function(heed_bench_peer name definition)
  add_library(heed_bench_${name} OBJECT peers/${name}.cpp)
  heed_options(heed_bench_${name})
  target_link_libraries(heed_bench_${name} PRIVATE ${ARGN})
  target_link_libraries(heed_bench PRIVATE heed_bench_${name})
  # For the list alone: with or without peers, the rest is compiled once.
  set_property(SOURCE peers/peers.cpp APPEND PROPERTY COMPILE_DEFINITIONS ${definition})
endfunction()

# Packages say much about themselves, even when asked to be quiet.
set(heed_message_level "${CMAKE_MESSAGE_LOG_LEVEL}")
set(CMAKE_MESSAGE_LOG_LEVEL ERROR)
find_package(OpenMP QUIET COMPONENTS CXX)
find_package(Torch CONFIG QUIET)
find_package(onnxruntime CONFIG QUIET)
find_package(dnnl CONFIG QUIET)
find_package(ggml CONFIG QUIET)
set(CMAKE_MESSAGE_LOG_LEVEL "${heed_message_level}")

set(heed_peers "")
# Older ones lack scaled_dot_product_attention with groups of heads.
if(Torch_FOUND AND Torch_VERSION VERSION_GREATER_EQUAL 2.5)
  heed_bench_peer(torch HEED_BENCH_TORCH torch c10 ${CMAKE_DL_LIBS})
  list(APPEND heed_peers torch)
endif()
# Its models are made in memory since 1.22, and 1.23 has the operator Attention.
if(TARGET onnxruntime::onnxruntime AND onnxruntime_VERSION VERSION_GREATER_EQUAL 1.23)
  heed_bench_peer(onnxruntime HEED_BENCH_ONNXRUNTIME onnxruntime::onnxruntime)
  list(APPEND heed_peers onnxruntime)
endif()
if(dnnl_VERSION VERSION_GREATER_EQUAL 3.8 AND TARGET DNNL::dnnl AND TARGET OpenMP::OpenMP_CXX)
  heed_bench_peer(onednn HEED_BENCH_ONEDNN DNNL::dnnl OpenMP::OpenMP_CXX)
  list(APPEND heed_peers onednn)
endif()
if(TARGET ggml::ggml)
  heed_bench_peer(ggml HEED_BENCH_GGML ggml::ggml ggml::ggml-base)
  list(APPEND heed_peers ggml)
endif()
# OpenBLAS's own package file names folders that distributions do not have.
find_library(HEED_OPENBLAS_LIBRARY NAMES openblas)
find_path(HEED_OPENBLAS_INCLUDE_DIR NAMES openblas_config.h PATH_SUFFIXES openblas)
mark_as_advanced(HEED_OPENBLAS_LIBRARY HEED_OPENBLAS_INCLUDE_DIR)
if(HEED_OPENBLAS_LIBRARY AND HEED_OPENBLAS_INCLUDE_DIR)
  heed_bench_peer(openblas HEED_BENCH_OPENBLAS "${HEED_OPENBLAS_LIBRARY}")
  target_include_directories(heed_bench_openblas SYSTEM PRIVATE "${HEED_OPENBLAS_INCLUDE_DIR}")
  list(APPEND heed_peers openblas)
endif()
message(STATUS "Peers in the benchmarks: ${heed_peers}")
