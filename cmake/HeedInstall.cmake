# install(), find_package(heed) and pkg-config. All paths are relative to the prefix, so an installed tree can move.
include(CMakePackageConfigHelpers)
