#pragma once

#include <set>
#include <string>
#include <string_view>

#include "heed/error.hpp"
#include "io/quote.hpp"

namespace heed::io {

/// The JSON object in a text, Json being one of nlohmann's types. Throws FileError if it is none, or if one
/// of its fields is there twice: which one would count?
template <class Json>
Json parse_object(std::string_view text, const std::string& what) {
  std::set<std::string> fields;
  std::string twice;
  const auto on_event = [&](int depth, typename Json::parse_event_t event, Json& parsed) {
    if (depth == 1 && event == Json::parse_event_t::key) {
      const auto name = parsed.template get<std::string>();
      if (!fields.insert(name).second) twice = quote(name);
    }
    return true;
  };
  Json json = Json::parse(text, on_event, false);
  if (!json.is_object()) throw_file_error(what + " is no JSON object");
  if (!twice.empty()) throw_file_error(what + " has " + twice + " twice");
  return json;
}

}  // namespace heed::io
