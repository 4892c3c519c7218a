// Reads the header of a safetensors file and refuses everything that the format does not promise.

#include "io/safetensors_header.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>
#include <utility>

#include "heed/core/error.hpp"
#include "io/dtype.hpp"
#include "io/quote.hpp"

namespace heed::io {
namespace {

/// Receives the events of the JSON parser, which keeps its own stack on the heap. The header has a fixed
/// shape of depth 3, so the place within it is one state, and anything deeper is refused at its first
/// bracket.
class HeaderReader final : public nlohmann::json::json_sax_t {
 public:
  HeaderReader(std::string_view json, std::size_t data_bytes, const std::string& file)
      : json_(json), data_bytes_(data_bytes), file_(file) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool null() override { refuse_value("null"); }
  bool boolean(bool value) override { refuse_value(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { refuse_value(std::to_string(value)); }
  bool number_float(number_float_t /*value*/, const string_t& text) override { refuse_value(quote(text)); }
  bool binary(binary_t& /*value*/) override { refuse_value("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::shape_list) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max())) {
        refuse_value(std::to_string(value));
      }
      if (tensor_.shape.size() == SafetensorsFile::kMaxRank) {
        refuse("has more than " + std::to_string(SafetensorsFile::kMaxRank) + " dimensions");
      }
      tensor_.shape.push_back(static_cast<std::ptrdiff_t>(value));
    } else if (state_ == State::offsets_list && num_offsets_ < 2) {
      if (value > data_bytes_) {
        refuse("has the offset " + std::to_string(value) + ", but the file has " +
               std::to_string(data_bytes_) + " bytes of data");
      }
      (num_offsets_ == 0 ? tensor_.begin : tensor_.end) = static_cast<std::size_t>(value);
      ++num_offsets_;
    } else {
      refuse_value(std::to_string(value));
    }
    return true;
  }

  bool string(string_t& value) override {
    if (state_ == State::dtype) {
      const std::optional<Dtype> dtype = dtype_named(value);
      if (!dtype) {
        refuse("has the unknown dtype " + quote(value));
      }
      tensor_.dtype = *dtype;
      state_ = State::tensor;
    } else if (state_ == State::metadata_value) {
      if (!header_.metadata.emplace(std::move(metadata_name_), std::move(value)).second) {
        refuse("has a key twice");
      }
      state_ = State::metadata;
    } else {
      refuse_value("a string");
    }
    return true;
  }

  bool start_object(std::size_t /*size*/) override {
    if (state_ == State::start) {
      state_ = State::root;
    } else if (state_ == State::root_value) {
      state_ = in_metadata_ ? State::metadata : State::tensor;
    } else {
      refuse_value("an object");
    }
    return true;
  }

  bool key(string_t& name) override {
    if (state_ == State::root) {
      start_entry(name);
    } else if (state_ == State::metadata) {
      metadata_name_ = std::move(name);
      state_ = State::metadata_value;
    } else {
      start_field(name);
    }
    return true;
  }

  bool end_object() override {
    if (state_ == State::root) {
      state_ = State::end;
      return true;
    }
    if (state_ == State::tensor) {
      finish_tensor();
    }
    state_ = State::root;
    return true;
  }

  bool start_array(std::size_t /*size*/) override {
    if (state_ == State::shape) {
      state_ = State::shape_list;
    } else if (state_ == State::offsets) {
      state_ = State::offsets_list;
    } else {
      refuse_value("a list");
    }
    return true;
  }

  bool end_array() override {
    if (state_ == State::offsets_list && num_offsets_ != 2) {
      refuse_value("a list of " + std::to_string(num_offsets_));
    }
    state_ = State::tensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*last_token*/,
                   const nlohmann::json::exception& /*error*/) override {
    const std::size_t at = std::min(position == 0 ? 0 : position - 1, json_.size());
    throw_file_error(file_ + ": the header is not valid JSON in UTF-8, from byte " + std::to_string(at) +
                     ": " + quote(json_.substr(at), 20));
  }

 private:
  enum class State {
    start,
    root,            ///< Between the entries of the header.
    root_value,      ///< An entry's object is due.
    metadata,        ///< Between the metadata's entries.
    metadata_value,  ///< A string is due.
    tensor,          ///< Between the fields of a tensor.
    dtype,
    shape,
    shape_list,
    offsets,
    offsets_list,
    end,
  };

  void start_entry(string_t& name) {
    in_metadata_ = name == kMetadataKey;
    tensor_ = TensorInfo{};
    tensor_.name = std::move(name);
    has_dtype_ = has_shape_ = has_offsets_ = false;
    num_offsets_ = 0;
    if (in_metadata_ && std::exchange(has_metadata_, true)) {
      refuse("occurs twice");
    }
    if (tensor_.name.find('\0') != std::string::npos) {
      refuse("has U+0000 in its name");
    }
    state_ = State::root_value;
  }

  void start_field(const string_t& name) {
    bool* seen = nullptr;
    if (name == "dtype") {
      seen = &has_dtype_;
      state_ = State::dtype;
    } else if (name == "shape") {
      seen = &has_shape_;
      state_ = State::shape;
    } else if (name == "data_offsets") {
      seen = &has_offsets_;
      state_ = State::offsets;
    } else {
      refuse("has the unknown field " + quote(name));
    }
    if (std::exchange(*seen, true)) {
      refuse("has the field " + quote(name) + " twice");
    }
  }

  void finish_tensor() {
    if (!has_dtype_ || !has_shape_ || !has_offsets_) {
      refuse(std::string("has no ") + (!has_dtype_ ? "dtype" : !has_shape_ ? "shape" : "data_offsets"));
    }
    if (tensor_.begin > tensor_.end) {
      refuse("has data_offsets that fall, from " + std::to_string(tensor_.begin) + " to " +
             std::to_string(tensor_.end));
    }
    const std::string what =
        "of dtype " + std::string(dtype_name(tensor_.dtype)) + " and shape " + shape_text(tensor_.shape);
    const std::optional<Extent> extent = extent_of(tensor_.dtype, tensor_.shape);
    if (!extent) {
      refuse(what + " does not come to a whole number of bytes that memory can hold");
    }
    if (extent->bytes != tensor_.end - tensor_.begin) {
      refuse(what + " needs " + std::to_string(extent->bytes) + " bytes, its data_offsets give it " +
             std::to_string(tensor_.end - tensor_.begin));
    }
    tensor_.size = extent->size;
    header_.tensors.push_back(std::move(tensor_));
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw_file_error(file_ + ": " + (in_metadata_ ? "" : "tensor ") + quote(tensor_.name) + " " + what);
  }

  [[noreturn]] void refuse_value(const std::string& found) const {
    switch (state_) {
      case State::metadata_value:
        refuse("has the key " + quote(metadata_name_) + ", which must be a string, not " + found);
      case State::dtype:
        refuse("has a dtype that must be a string, not " + found);
      case State::shape:
      case State::shape_list:
        refuse("has a shape that must be a list of integers from 0 to 2^" +
               std::to_string(std::numeric_limits<std::ptrdiff_t>::digits) + " - 1, not " + found);
      case State::offsets:
      case State::offsets_list:
        refuse("has data_offsets that must be a list of two non-negative integers, not " + found);
      case State::root_value:
        refuse("must be an object, not " + found);
      default:
        throw_file_error(file_ + ": the header must be an object, not " + found);
    }
  }

  std::string_view json_;
  std::size_t data_bytes_;
  const std::string& file_;
  SafetensorsHeader header_;
  State state_ = State::start;
  bool in_metadata_ = false;
  bool has_metadata_ = false;
  std::string metadata_name_;
  TensorInfo tensor_;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  int num_offsets_ = 0;
};

/// Sorts by data. A tensor without elements stands before the one that begins where it does.
void sort_by_data(std::vector<TensorInfo>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
}

std::vector<std::size_t> sorted_by_name(const std::vector<TensorInfo>& tensors, const std::string& file) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return tensors[a].name < tensors[b].name; });
  const auto same = std::adjacent_find(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return tensors[a].name == tensors[b].name;
  });
  if (same != order.end()) {
    throw_file_error(file + ": tensor " + quote(tensors[*same].name) + " occurs twice");
  }
  return order;
}

/// Every byte of the data must belong to exactly one tensor: what lies hidden in a gap, or changes with a
/// neighbor, is no weight.
void check_coverage(const std::vector<TensorInfo>& tensors, std::size_t data_bytes, const std::string& file) {
  std::size_t covered = 0;
  const TensorInfo* previous = nullptr;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin < covered) {
      throw_file_error(file + ": tensors " + quote(previous->name) + " and " + quote(tensor.name) +
                       " overlap");
    }
    if (tensor.begin > covered) {
      break;
    }
    covered = tensor.end;
    previous = &tensor;
  }
  if (covered != data_bytes) {
    throw_file_error(file + ": byte " + std::to_string(covered) + " of the " + std::to_string(data_bytes) +
                     " bytes of data belongs to no tensor");
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, std::size_t data_bytes,
                                           const std::string& file) {
  // The parser would skip a byte order mark or blanks, and take a zero byte for the end of the text.
  if (json.empty() || json.front() != '{') {
    throw_file_error(file + " is not a safetensors file: the header must start with '{', not " +
                     quote(json, 20));
  }
  if (const std::size_t zero = json.find('\0'); zero != std::string_view::npos) {
    throw_file_error(file + ": the header has a zero byte at " + std::to_string(zero));
  }
  HeaderReader reader(json, data_bytes, file);
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  SafetensorsHeader header = reader.take();
  sort_by_data(header.tensors);
  header.by_name = sorted_by_name(header.tensors, file);
  check_coverage(header.tensors, data_bytes, file);
  return header;
}

}  // namespace heed::io
