# cmake --toolchain cmake/aarch64-linux-gnu.cmake ...: builds for 64-bit ARM on a host of another kind, with the compiler that Debian
# and Ubuntu have in g++-aarch64-linux-gnu. Programs that the build or ctest starts run under qemu (package qemu-user), if it is there.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

# Libraries from there alone; headers and the packages of header-only libraries may be the host's.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)

find_program(HEED_QEMU_AARCH64 NAMES qemu-aarch64 qemu-aarch64-static)
if(HEED_QEMU_AARCH64)
  set(CMAKE_CROSSCOMPILING_EMULATOR "${HEED_QEMU_AARCH64};-L;/usr/aarch64-linux-gnu")
endif()
