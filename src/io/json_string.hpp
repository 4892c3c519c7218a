#pragma once

// Strings in JSON.

#include <string>
#include <string_view>

namespace heed::io {

/// The text as a JSON string, quotes included. Throws ArgumentError, beginning with `what`, unless it is
/// UTF-8.
std::string json_string(std::string_view text, std::string_view what);

}  // namespace heed::io
