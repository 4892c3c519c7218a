#include "heed/gpt_config.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "attention/check.hpp"
#include "heed/error.hpp"
#include "io/json_object.hpp"
#include "io/quote.hpp"

namespace heed {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::array position_names = {std::pair{PositionKind::learned, "learned"},
                                       std::pair{PositionKind::sinusoidal, "sinusoidal"},
                                       std::pair{PositionKind::rotary, "rotary"}};
constexpr std::array activation_names = {
    std::pair{Activation::gelu, "gelu"}, std::pair{Activation::gelu_tanh, "gelu_tanh"},
    std::pair{Activation::silu, "silu"}, std::pair{Activation::relu, "relu"}};

/// Reads each field once, and knows at the end whether all were there and no other.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {}

  void read(const char* name, Index& value) {
    const Json& json = field(name);
    const bool too_large = json.is_number_unsigned() && !std::in_range<Index>(json.get<std::uint64_t>());
    if (!json.is_number_integer() || too_large) fail(name, "a whole number");
    value = field(name).get<Index>();
    ++taken_;
  }
  void read(const char* name, bool& value) {
    if (!field(name).is_boolean()) fail(name, "true or false");
    value = field(name).get<bool>();
    ++taken_;
  }
  void read(const char* name, double& value) {
    if (!field(name).is_number()) fail(name, "a number");
    value = field(name).get<double>();
    ++taken_;
  }
  template <class Names, class Kind>
  void read(const char* name, const Names& names, Kind& value) {
    std::string known;
    for (const auto& [kind, text] : names) {
      if (field(name) == text) {
        value = kind;
        ++taken_;
        return;
      }
      known += (known.empty() ? "" : ", ") + std::string(text);
    }
    fail(name, "one of " + known);
  }

  void require_no_other() const {
    if (json_.size() == taken_) return;
    throw_file_error("the configuration has " + std::to_string(json_.size()) + " fields, " +
                     std::to_string(taken_) + " are known");
  }

 private:
  const Json& field(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) throw_file_error("the configuration has no \"" + std::string(name) + "\"");
    return *found;
  }
  [[noreturn]] void fail(const char* name, const std::string& wanted) const {
    // Not a list or an object, which may be nested deeper than a stack can follow.
    const Json& json = field(name);
    const std::string text = json.is_structured()
                                 ? json.type_name()
                                 : io::quote(json.dump(-1, ' ', true, Json::error_handler_t::replace));
    throw_file_error("\"" + std::string(name) + "\" is " + text + ", it must be " + wanted);
  }

  const Json& json_;
  std::size_t taken_ = 0;
};

template <class Names, class Kind>
const char* name_of(const Names& names, Kind kind) {
  for (const auto& [known, text] : names) {
    if (known == kind) return text;
  }
  return "";
}

}  // namespace

void check_config(const GptConfig& config) {
  const auto require_size = [](Index value, const char* name) {
    detail::require_positive(value, name);
    detail::require_possible(value, name);
  };
  for (const auto& [value, name] :
       {std::pair{config.vocab_size, "vocab_size"}, std::pair{config.context, "context"},
        std::pair{config.num_layers, "num_layers"}, std::pair{config.num_heads, "num_heads"},
        std::pair{config.kv_heads(), "num_kv_heads"}, std::pair{config.d_model, "d_model"}}) {
    require_size(value, name);
  }
  require_size(config.ff_size(), "d_ff");  // a multiple of d_model, which can be multiplied now
  const auto require_multiple = [](Index value, const char* name, Index of, const char* of_name) {
    if (value % of != 0) {
      throw_shape_error(std::string(name) + " is " + std::to_string(value) + ", it must be a multiple of " +
                        of_name + ", which is " + std::to_string(of));
    }
  };
  require_multiple(config.d_model, "d_model", config.num_heads, "num_heads");
  require_multiple(config.num_heads, "num_heads", config.kv_heads(), "num_kv_heads");
  if (config.positions == PositionKind::rotary && config.d_model / config.num_heads % 2 != 0) {
    throw_shape_error("with rotary positions a head has an even size, d_model " +
                      std::to_string(config.d_model) + " over num_heads " + std::to_string(config.num_heads) +
                      " is odd");
  }
  if (*name_of(position_names, config.positions) == '\0') {
    throw_argument_error("positions is " + std::to_string(static_cast<int>(config.positions)) +
                         ", no such kind");
  }
  if (*name_of(activation_names, config.activation) == '\0') {
    throw_argument_error("activation is " + std::to_string(static_cast<int>(config.activation)) +
                         ", no such function");
  }
  constexpr Index most_tokens = INT32_MAX;
  if (config.vocab_size > most_tokens) {
    throw_shape_error("vocab_size is " + std::to_string(config.vocab_size) + ", the largest token id is " +
                      std::to_string(most_tokens));
  }
  if (!(config.dropout >= 0 && config.dropout < 1))
    throw_argument_error("dropout is " + detail::number_text(config.dropout) + ", it must be in [0, 1)");
  // As a float, whatever the model's scalar is: 1e-50 is 0 there.
  const float epsilon = static_cast<float>(config.norm_epsilon);
  if (!(epsilon > 0) || !std::isfinite(epsilon)) {
    throw_argument_error("norm_epsilon is " + detail::number_text(config.norm_epsilon) +
                         ", it must be positive and finite");
  }
}

std::string config_to_json(const GptConfig& config) {
  const Json json = {{"vocab_size", config.vocab_size},
                     {"context", config.context},
                     {"num_layers", config.num_layers},
                     {"num_heads", config.num_heads},
                     {"num_kv_heads", config.kv_heads()},
                     {"d_model", config.d_model},
                     {"d_ff", config.ff_size()},
                     {"positions", name_of(position_names, config.positions)},
                     {"activation", name_of(activation_names, config.activation)},
                     {"gated", config.gated},
                     {"rms_norm", config.rms_norm},
                     {"norm_epsilon", config.norm_epsilon},
                     {"bias", config.bias},
                     {"tied", config.tied},
                     {"dropout", config.dropout}};
  return json.dump(2) + "\n";
}

GptConfig config_from_json(const std::string& text) {
  const Json json = io::parse_object<Json>(text, "the configuration");
  Fields fields(json);
  GptConfig config;
  fields.read("vocab_size", config.vocab_size);
  fields.read("context", config.context);
  fields.read("num_layers", config.num_layers);
  fields.read("num_heads", config.num_heads);
  fields.read("num_kv_heads", config.num_kv_heads.emplace());
  fields.read("d_model", config.d_model);
  fields.read("d_ff", config.d_ff.emplace());
  fields.read("positions", position_names, config.positions);
  fields.read("activation", activation_names, config.activation);
  fields.read("gated", config.gated);
  fields.read("rms_norm", config.rms_norm);
  fields.read("norm_epsilon", config.norm_epsilon);
  fields.read("bias", config.bias);
  fields.read("tied", config.tied);
  fields.read("dropout", config.dropout);
  fields.require_no_other();
  try {
    check_config(config);
  } catch (const Error& error) {
    throw_file_error(error.what());
  }
  return config;
}

}  // namespace heed
