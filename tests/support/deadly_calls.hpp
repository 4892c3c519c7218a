#pragma once

// Stands in for the system calls by which a file is written and put in its place, so that a process can be
// killed at each of them in turn. For one source file of a test program: it defines these functions for all
// of it.

#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdio>

namespace heed::test {

/// The moments that this process still lives through; negative: all.
inline long moments_to_live = -1;

/// Ends the process as kill -9 does if its moments are used up.
inline void live_through_moment() {
  if (moments_to_live < 0 || moments_to_live-- > 0) return;
  ::kill(::getpid(), SIGKILL);
  while (true) ::pause();
}

}  // namespace heed::test

extern "C" {

// Before anything is written, and when half of it is.
ssize_t write(int descriptor, const void* bytes, std::size_t count) {
  heed::test::live_through_moment();
  const auto first = heed::test::moments_to_live < 0 ? count : (count + 1) / 2;
  const ssize_t written = ::syscall(SYS_write, descriptor, bytes, first);
  heed::test::live_through_moment();
  return written;
}

int fsync(int descriptor) {
  heed::test::live_through_moment();
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

int rename(const char* from, const char* to) noexcept {
  heed::test::live_through_moment();
  const long result = ::syscall(SYS_renameat2, -100 /* the current folder */, from, -100, to, 0);
  heed::test::live_through_moment();
  return static_cast<int>(result);
}

}  // extern "C"
