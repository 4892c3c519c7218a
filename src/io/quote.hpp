#pragma once

// Text of unknown origin in error messages.

#include <cstddef>
#include <string>
#include <string_view>

namespace heed::io {

/// Text of unknown origin for an error message: in double quotes, cut after about max_bytes, with everything
/// escaped that a terminal could act on or that is no valid UTF-8 ("\x1b", "\u202e").
std::string quote(std::string_view text, std::size_t max_bytes = 80);

}  // namespace heed::io
