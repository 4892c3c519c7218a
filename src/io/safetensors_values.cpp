// SafetensorsFile::values: tensors as numbers of a C++ type, each conversion exact or refused.

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "heed/core/error.hpp"
#include "heed/io/safetensors.hpp"
#include "io/quote.hpp"

namespace heed {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values and bytes are little-endian, as in the file");
static_assert(std::numeric_limits<float>::is_iec559 && std::numeric_limits<double>::is_iec559);

template <typename T>
constexpr const char* type_name() {
  if constexpr (std::is_same_v<T, double>) {
    return "double";
  } else if constexpr (std::is_same_v<T, float>) {
    return "float";
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return "std::int64_t";
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return "std::int32_t";
  } else {
    return "std::uint8_t";
  }
}

/// A binary floating-point format of at most 16 bits.
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  ///< Else the highest exponent holds numbers too, and only all ones are NaN.
};

constexpr SmallFloat kF16Format = {5, 10, true};
constexpr SmallFloat kF8E5m2Format = {5, 2, true};
constexpr SmallFloat kF8E4m3Format = {4, 3, false};

/// The value of a small float. float holds each of them exactly.
float decode(unsigned bits, const SmallFloat& format) {
  const unsigned max_exponent = (1U << format.exponent_bits) - 1;
  const unsigned max_mantissa = (1U << format.mantissa_bits) - 1;
  const unsigned exponent = (bits >> format.mantissa_bits) & max_exponent;
  const unsigned mantissa = bits & max_mantissa;
  const bool negative = ((bits >> (format.mantissa_bits + format.exponent_bits)) & 1U) != 0;
  // value = mantissa * 2^unit, where the leading 1 of a normal number is not stored
  const int unit = 1 - static_cast<int>(max_exponent / 2) - format.mantissa_bits;
  float magnitude = 0;
  if (exponent == max_exponent && format.has_infinity) {
    magnitude =
        mantissa == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == max_exponent && mantissa == max_mantissa) {
    magnitude = std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), unit);
  } else {
    magnitude =
        std::ldexp(static_cast<float>(mantissa + max_mantissa + 1), unit + static_cast<int>(exponent) - 1);
  }
  return negative ? -magnitude : magnitude;
}

/// Whether T holds the integer exactly.
template <typename T, typename Integer>
bool is_exact(Integer value) {
  if constexpr (std::is_integral_v<T>) {
    return std::in_range<T>(value);
  } else {
    const auto bits = static_cast<std::uint64_t>(value);
    const std::uint64_t magnitude = std::cmp_less(value, 0) ? 0 - bits : bits;
    return magnitude == 0 || static_cast<int>(std::bit_width(magnitude)) - std::countr_zero(magnitude) <=
                                 std::numeric_limits<T>::digits;
  }
}

/// Copies the elements of one tensor, one conversion per element type of the file.
template <typename T>
class Converter {
 public:
  Converter(const std::string& file, const TensorInfo& tensor, std::span<const std::byte> bytes)
      : file_(file), tensor_(tensor), bytes_(bytes) {}

  std::vector<T> convert() const {
    switch (tensor_.dtype) {
      case Dtype::f64:
        return floats<std::uint64_t>([](std::uint64_t bits) { return std::bit_cast<double>(bits); });
      case Dtype::f32:
        return floats<std::uint32_t>([](std::uint32_t bits) { return std::bit_cast<float>(bits); });
      case Dtype::bf16:
        return floats<std::uint16_t>([](std::uint32_t bits) { return std::bit_cast<float>(bits << 16); });
      case Dtype::f16:
        return floats<std::uint16_t>([](unsigned bits) { return decode(bits, kF16Format); });
      case Dtype::f8_e5m2:
        return floats<std::uint8_t>([](unsigned bits) { return decode(bits, kF8E5m2Format); });
      case Dtype::f8_e4m3:
        return floats<std::uint8_t>([](unsigned bits) { return decode(bits, kF8E4m3Format); });
      case Dtype::i64:
        return integers<std::int64_t>();
      case Dtype::i32:
        return integers<std::int32_t>();
      case Dtype::i16:
        return integers<std::int16_t>();
      case Dtype::i8:
        return integers<std::int8_t>();
      case Dtype::u64:
        return integers<std::uint64_t>();
      case Dtype::u32:
        return integers<std::uint32_t>();
      case Dtype::u16:
        return integers<std::uint16_t>();
      case Dtype::u8:
        return integers<std::uint8_t>();
      case Dtype::boolean:
        return booleans();
      default:
        refuse("has dtype " + std::string(dtype_name(tensor_.dtype)) + ", which can only be read as bytes");
    }
  }

 private:
  template <typename Stored>
  Stored load(std::size_t i) const {
    Stored value;
    std::memcpy(&value, bytes_.data() + i * sizeof(Stored), sizeof(Stored));
    return value;
  }

  template <typename Stored, typename Decode>
  std::vector<T> floats(Decode decode_bits) const {
    if constexpr (std::is_integral_v<T>) {
      refuse("has dtype " + std::string(dtype_name(tensor_.dtype)) + ", which is not converted to " +
             type_name<T>());
    } else {
      std::vector<T> result(tensor_.size);
      for (std::size_t i = 0; i < result.size(); ++i) {
        result[i] = static_cast<T>(decode_bits(load<Stored>(i)));
      }
      return result;
    }
  }

  template <typename Stored>
  std::vector<T> integers() const {
    std::vector<T> result(tensor_.size);
    for (std::size_t i = 0; i < result.size(); ++i) {
      const auto value = load<Stored>(i);
      if (!is_exact<T>(value)) {
        refuse("has the value " + std::to_string(value) + " at element " + std::to_string(i) + ", which " +
               type_name<T>() + " cannot hold exactly");
      }
      result[i] = static_cast<T>(value);
    }
    return result;
  }

  std::vector<T> booleans() const {
    std::vector<T> result = integers<std::uint8_t>();
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (result[i] != T{0} && result[i] != T{1}) {
        refuse("has dtype BOOL, but the byte " + std::to_string(load<std::uint8_t>(i)) + " at element " +
               std::to_string(i));
      }
    }
    return result;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw_file_error(file_ + ": tensor " + io::quote(tensor_.name) + " " + what);
  }

  const std::string& file_;
  const TensorInfo& tensor_;
  std::span<const std::byte> bytes_;
};

}  // namespace

template <SafetensorsValue T>
std::vector<T> SafetensorsFile::values(std::string_view name) const {
  return Converter<T>(name_, at(name), bytes(name)).convert();
}

template std::vector<double> SafetensorsFile::values<double>(std::string_view) const;
template std::vector<float> SafetensorsFile::values<float>(std::string_view) const;
template std::vector<std::int64_t> SafetensorsFile::values<std::int64_t>(std::string_view) const;
template std::vector<std::int32_t> SafetensorsFile::values<std::int32_t>(std::string_view) const;
template std::vector<std::uint8_t> SafetensorsFile::values<std::uint8_t>(std::string_view) const;

}  // namespace heed
