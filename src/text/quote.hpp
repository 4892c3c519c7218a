#pragma once

#include <string>
#include <string_view>

namespace heed::text {

/// Any bytes as a short quoted text for a message: control characters escaped, ill-formed UTF-8 replaced, and
/// cut to about max_bytes.
std::string quote(std::string_view text, std::size_t max_bytes = 60);

}  // namespace heed::text
