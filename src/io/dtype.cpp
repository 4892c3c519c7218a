// The element types of the safetensors format: names, sizes, and how much a shape holds.

#include "io/dtype.hpp"

#include <array>
#include <cstdint>
#include <limits>

namespace heed {
namespace {

struct DtypeFacts {
  Dtype dtype;
  std::string_view name;
  std::size_t bits;
};

constexpr std::array<DtypeFacts, 22> kFacts = {{
    {Dtype::boolean, "BOOL", 8},
    {Dtype::f4, "F4", 4},
    {Dtype::f6_e2m3, "F6_E2M3", 6},
    {Dtype::f6_e3m2, "F6_E3M2", 6},
    {Dtype::u8, "U8", 8},
    {Dtype::i8, "I8", 8},
    {Dtype::f8_e5m2, "F8_E5M2", 8},
    {Dtype::f8_e4m3, "F8_E4M3", 8},
    {Dtype::f8_e8m0, "F8_E8M0", 8},
    {Dtype::f8_e4m3fnuz, "F8_E4M3FNUZ", 8},
    {Dtype::f8_e5m2fnuz, "F8_E5M2FNUZ", 8},
    {Dtype::i16, "I16", 16},
    {Dtype::u16, "U16", 16},
    {Dtype::f16, "F16", 16},
    {Dtype::bf16, "BF16", 16},
    {Dtype::i32, "I32", 32},
    {Dtype::u32, "U32", 32},
    {Dtype::f32, "F32", 32},
    {Dtype::c64, "C64", 64},
    {Dtype::f64, "F64", 64},
    {Dtype::i64, "I64", 64},
    {Dtype::u64, "U64", 64},
}};

// A caller can cast any number to Dtype: such a type has no bits and no name in the format.
constexpr DtypeFacts kNoDtype = {Dtype::boolean, "(no dtype)", 0};

const DtypeFacts& facts_of(Dtype dtype) noexcept {
  for (const DtypeFacts& entry : kFacts) {
    if (entry.dtype == dtype) {
      return entry;
    }
  }
  return kNoDtype;
}

}  // namespace

std::string_view dtype_name(Dtype dtype) noexcept {
  return facts_of(dtype).name;
}

std::size_t dtype_bits(Dtype dtype) noexcept {
  return facts_of(dtype).bits;
}

namespace io {

std::optional<Dtype> dtype_named(std::string_view name) noexcept {
  for (const DtypeFacts& entry : kFacts) {
    if (entry.name == name) {
      return entry.dtype;
    }
  }
  return std::nullopt;
}

std::optional<Extent> extent_of(Dtype dtype, const std::vector<std::ptrdiff_t>& shape) noexcept {
  const std::size_t element_bits = dtype_bits(dtype);
  if (element_bits == 0) {
    return std::nullopt;
  }
  std::size_t bits = element_bits;
  bool empty = false;
  for (const std::ptrdiff_t dimension : shape) {
    if (dimension < 0) {
      return std::nullopt;
    }
    if (dimension == 0) {
      empty = true;
      continue;
    }
    const auto factor = static_cast<std::size_t>(dimension);
    if (bits > std::numeric_limits<std::size_t>::max() / factor) {
      return std::nullopt;
    }
    bits *= factor;
  }
  if (empty) {
    return Extent{};
  }
  if (bits % 8 != 0) {
    return std::nullopt;
  }
  return Extent{bits / element_bits, bits / 8};
}

std::string shape_text(const std::vector<std::ptrdiff_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + ")";
}

}  // namespace io
}  // namespace heed
