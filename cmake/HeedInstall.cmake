# install(), find_package(heed) and pkg-config. All paths are relative to the prefix, so an installed tree can move.
option(HEED_INSTALL "Let cmake --install install Heed" ${HEED_IS_TOP_LEVEL})
if(NOT HEED_INSTALL)
  return()
endif()

include(CMakePackageConfigHelpers)
set(HEED_INSTALL_CMAKEDIR "${CMAKE_INSTALL_LIBDIR}/cmake/heed")

install(TARGETS heed heed_attention EXPORT heedTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/heed" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES "${PROJECT_BINARY_DIR}/include/heed/core/export.hpp" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/heed/core")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

# Installed, utf8proc is needed beside a static Heed unless it was compiled in.
set(HEED_NEEDS_UTF8PROC ON)
if(HEED_UTF8PROC_FETCHED)
  set(HEED_NEEDS_UTF8PROC OFF)
endif()
install(EXPORT heedTargets NAMESPACE heed:: DESTINATION "${HEED_INSTALL_CMAKEDIR}")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/heedConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/heedConfig.cmake" INSTALL_DESTINATION "${HEED_INSTALL_CMAKEDIR}")
# Before 1.0 a new minor version may change what users see.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/heedConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/heedConfig.cmake" "${PROJECT_BINARY_DIR}/heedConfigVersion.cmake"
  "${CMAKE_CURRENT_LIST_DIR}/Findutf8proc.cmake" DESTINATION "${HEED_INSTALL_CMAKEDIR}")

# pkg-config knows its own file's folder: the prefix is found from there.
set(HEED_PC_DIR "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(HEED_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
  set(HEED_PC_LIBDIR "${CMAKE_INSTALL_FULL_LIBDIR}")
  set(HEED_PC_INCLUDEDIR "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
else()
  file(RELATIVE_PATH HEED_PC_TO_PREFIX "/${HEED_PC_DIR}" "/")
  string(REGEX REPLACE "/$" "" HEED_PC_TO_PREFIX "${HEED_PC_TO_PREFIX}")
  set(HEED_PC_PREFIX "\${pcfiledir}/${HEED_PC_TO_PREFIX}")
  set(HEED_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(HEED_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
set(HEED_PC_UTF8PROC "")
if(HEED_NEEDS_UTF8PROC)
  set(HEED_PC_UTF8PROC " -lutf8proc")
endif()
# As target_compile_definitions() says it to users of CMake.
set(HEED_PC_DEFINITIONS "")
if(heed_library_type STREQUAL "STATIC_LIBRARY")
  set(HEED_PC_DEFINITIONS " -DHEED_STATIC_DEFINE")
endif()
foreach(name heed heed-attention)
  configure_file("${CMAKE_CURRENT_LIST_DIR}/${name}.pc.in" "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${HEED_PC_DIR}")
endforeach()
