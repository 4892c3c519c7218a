// GptConfig: its checks, and its form as JSON.

#include "heed/models/gpt_config.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/require.hpp"
#include "heed/core/error.hpp"
#include "io/json_object.hpp"
#include "io/quote.hpp"

namespace heed {

namespace {

constexpr std::array kPositionNames = {std::pair{PositionKind::learned, "learned"},
                                       std::pair{PositionKind::sinusoidal, "sinusoidal"},
                                       std::pair{PositionKind::rotary, "rotary"}};
constexpr std::array kActivationNames = {
    std::pair{Activation::gelu, "gelu"}, std::pair{Activation::gelu_tanh, "gelu_tanh"},
    std::pair{Activation::silu, "silu"}, std::pair{Activation::relu, "relu"}};

/// The fields of a configuration, each read once.
class Fields {
 public:
  using Value = io::JsonValue;

  void add(const char* name, Index& value) {
    add(name, [name, &value](const Value& json) {
      if (json.kind != Value::Kind::integer) fail(name, json, "a whole number");
      value = static_cast<Index>(json.integer);
    });
  }
  void add(const char* name, bool& value) {
    add(name, [name, &value](const Value& json) {
      if (json.kind != Value::Kind::boolean) fail(name, json, "true or false");
      value = json.boolean;
    });
  }
  void add(const char* name, double& value) {
    add(name, [name, &value](const Value& json) {
      if (json.kind != Value::Kind::integer && json.kind != Value::Kind::number) fail(name, json, "a number");
      value = json.number;
    });
  }
  template <class Names, class Kind>
  void add(const char* name, const Names& names, Kind& value) {
    add(name, [name, &names, &value](const Value& json) {
      std::string known;
      for (const auto& [kind, text] : names) {
        if (json.kind == Value::Kind::string && json.string == text) {
          value = kind;
          return;
        }
        known += (known.empty() ? "" : ", ") + std::string(text);
      }
      fail(name, json, "one of " + known);
    });
  }

  /// Throws FileError unless the text has all fields and no other.
  void read(std::string_view text) {
    std::size_t there = 0;
    io::read_json_object(text, "the configuration", [&](const io::JsonPlace& place, const Value& value) {
      if (place.depth != 1) return;
      ++there;
      for (Field& field : fields_) {
        if (place.field != field.name) continue;
        if (field.seen) throw_file_error("the configuration has " + io::quote(place.field) + " twice");
        field.seen = true;
        field.set(value);
      }
    });
    for (const Field& field : fields_) {
      if (!field.seen) throw_file_error("the configuration has no \"" + std::string(field.name) + "\"");
    }
    if (there > fields_.size()) {
      throw_file_error("the configuration has " + std::to_string(there) + " fields, " +
                       std::to_string(fields_.size()) + " are known");
    }
  }

 private:
  struct Field {
    const char* name;
    std::function<void(const Value&)> set;
    bool seen = false;
  };

  void add(const char* name, std::function<void(const Value&)> set) {
    fields_.push_back({name, std::move(set)});
  }
  [[noreturn]] static void fail(const char* name, const Value& json, const std::string& wanted) {
    throw_file_error("\"" + std::string(name) + "\" is " + json.text() + ", it must be " + wanted);
  }

  std::vector<Field> fields_;
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
  if (*name_of(kPositionNames, config.positions) == '\0') {
    throw_argument_error("positions is " + std::to_string(static_cast<int>(config.positions)) +
                         ", no such kind");
  }
  if (*name_of(kActivationNames, config.activation) == '\0') {
    throw_argument_error("activation is " + std::to_string(static_cast<int>(config.activation)) +
                         ", no such function");
  }
  constexpr Index max_tokens = INT32_MAX;
  if (config.vocab_size > max_tokens) {
    throw_shape_error("vocab_size is " + std::to_string(config.vocab_size) + ", the largest token id is " +
                      std::to_string(max_tokens));
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
  std::string json = "{";
  const auto add = [&](const char* name, const std::string& value) {
    json += (json == "{" ? "\n  \"" : ",\n  \"") + std::string(name) + "\": " + value;
  };
  const auto text = [](const char* name) { return '"' + std::string(name) + '"'; };
  const auto truth = [](bool value) { return std::string(value ? "true" : "false"); };
  add("vocab_size", std::to_string(config.vocab_size));
  add("context", std::to_string(config.context));
  add("num_layers", std::to_string(config.num_layers));
  add("num_heads", std::to_string(config.num_heads));
  add("num_kv_heads", std::to_string(config.kv_heads()));
  add("d_model", std::to_string(config.d_model));
  add("d_ff", std::to_string(config.ff_size()));
  add("positions", text(name_of(kPositionNames, config.positions)));
  add("activation", text(name_of(kActivationNames, config.activation)));
  add("gated", truth(config.gated));
  add("rms_norm", truth(config.rms_norm));
  add("norm_epsilon", io::json_number(config.norm_epsilon));
  add("bias", truth(config.bias));
  add("tied", truth(config.tied));
  add("dropout", io::json_number(config.dropout));
  return json + "\n}\n";
}

GptConfig config_from_json(const std::string& text) {
  GptConfig config;
  Fields fields;
  fields.add("vocab_size", config.vocab_size);
  fields.add("context", config.context);
  fields.add("num_layers", config.num_layers);
  fields.add("num_heads", config.num_heads);
  fields.add("num_kv_heads", config.num_kv_heads.emplace());
  fields.add("d_model", config.d_model);
  fields.add("d_ff", config.d_ff.emplace());
  fields.add("positions", kPositionNames, config.positions);
  fields.add("activation", kActivationNames, config.activation);
  fields.add("gated", config.gated);
  fields.add("rms_norm", config.rms_norm);
  fields.add("norm_epsilon", config.norm_epsilon);
  fields.add("bias", config.bias);
  fields.add("tied", config.tied);
  fields.add("dropout", config.dropout);
  fields.read(text);
  try {
    check_config(config);
  } catch (const Error& error) {
    throw_file_error(error.what());
  }
  return config;
}

}  // namespace heed
