#pragma once

// Reading and writing .safetensors files: named arrays of numbers, as most published model weights come.
//
//   const heed::SafetensorsFile file = heed::SafetensorsFile::open("weights.safetensors");
//   const std::vector<float> w_q = file.values<float>("layers.0.w_q");
//
//   const std::vector<float> bias = {0.5f, 0.25f};
//   heed::write_safetensors("bias.safetensors", {heed::tensor_bytes<float>("bias", {2}, bias)});
//
// The format: 8 bytes with the length N of the header (unsigned, little-endian), N bytes of JSON
// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ..., "__metadata__": {"key":
// "text"}}, then the data. Offsets count from the start of the data; arrays are row-major and little-endian.
//
// A file is not trusted: whatever its bytes are, the reader either accepts a file that is wholly consistent
// or throws FileError, and never allocates more than a small multiple of the bytes that are really there.

#include "heed/core/config.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace heed {

/// The element types of the format. The F4, F6 and F8 names follow the format's own.
enum class Dtype {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64,
};

/// Returns the name of an element type in a file's header: "F32", "BOOL", ...
HEED_EXPORT std::string_view dtype_name(Dtype dtype) noexcept;

/// Returns the size of one element in bits: 32 for F32, 6 for F6_E2M3.
HEED_EXPORT std::size_t dtype_bits(Dtype dtype) noexcept;

/// The number types that tensors are converted to and from.
template <typename T>
concept SafetensorsValue = std::is_same_v<T, double> || std::is_same_v<T, float> ||
    std::is_same_v<T, std::int64_t> || std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::uint8_t>;

/// What the header says of one tensor. Every number in it has been checked against the file.
struct TensorInfo {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<std::ptrdiff_t> shape;  ///< Empty for a scalar (one element).
  std::size_t size = 1;               ///< Number of elements, the product of the shape.
  std::size_t begin = 0;              ///< First byte, counted from the start of the data.
  std::size_t end = 0;                ///< One past the last byte.
};

/// A .safetensors file in memory. Reading it from several threads at once is safe, as with any const object.
class HEED_EXPORT SafetensorsFile {
 public:
  /// The longest header that is read, in bytes: the limit of the format's reference implementation.
  static constexpr std::size_t kMaxHeaderBytes = 100'000'000;

  /// The most dimensions that a tensor may have.
  static constexpr std::size_t kMaxRank = 64;

  /// Reads a whole file into memory (as many bytes as the file has). The header is checked before the data is
  /// read. Throws FileError, naming the path, if it is missing, unreadable or no regular file, and in all
  /// cases of parse().
  static SafetensorsFile open(const std::filesystem::path& path);

  /// Takes the bytes of a file; `name` stands for it in error messages.
  ///
  /// Throws FileError unless all of this holds: the header's length fits the file and kMaxHeaderBytes; the
  /// header is one JSON object that starts with '{', followed by nothing but blanks, in valid UTF-8; no name
  /// occurs twice, however it is escaped, and none holds U+0000; each tensor has a known dtype, a shape of at
  /// most kMaxRank integers and two offsets, and nothing else (an entry that is not understood could change
  /// what the numbers mean); shape times element size is the length of the byte range; the tensors fill the
  /// data exactly, without overlap, gap or rest; the metadata's values are strings.
  static SafetensorsFile parse(std::vector<std::byte> bytes, const std::string& name);

  /// Returns all tensors, in the order of their data.
  const std::vector<TensorInfo>& tensors() const noexcept { return tensors_; }

  /// Returns the file's "__metadata__": free text by key. Empty if it has none.
  const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }

  /// Returns the tensor of that name, or nullptr. The pointer lives as long as this object. O(log n).
  const TensorInfo* find(std::string_view name) const noexcept;

  /// Returns the tensor of that name. Throws FileError, naming the file and the tensor, if there is none.
  const TensorInfo& at(std::string_view name) const;

  /// Returns the elements of a tensor as a row-major copy of type T. No number changes without notice: - a
  /// floating-point element is rounded to the nearest T, as by static_cast. That is exact except from F64 to
  ///    float, where a value beyond the range of float becomes an infinity. NaN stays NaN;
  ///  - a floating-point element never becomes an integer: FileError;
  ///  - an integer or BOOL (0 or 1) must be exactly representable in T: else FileError with the value and its
  ///  index.
  /// Converts F64, F32, F16, BF16, F8_E5M2, F8_E4M3, all integers and BOOL. FileError for the other types,
  /// which only bytes() gives, and if there is no such tensor.
  template <SafetensorsValue T>
  std::vector<T> values(std::string_view name) const;

  /// Returns the bytes of a tensor as they stand in the file: little-endian, row-major. They need not be
  /// aligned for the element type, since headers may have any length: copy them (std::memcpy), do not cast
  /// the pointer. The span lives as long as this object. Throws FileError if there is no such tensor.
  std::span<const std::byte> bytes(std::string_view name) const;

 private:
  SafetensorsFile() = default;

  std::string name_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::size_t> by_name_;  ///< Indices into tensors_, sorted by name.
  std::map<std::string, std::string> metadata_;
  std::vector<std::byte> storage_;  ///< The data starts at data_start_.
  std::size_t data_start_ = 0;
};

extern template std::vector<double> SafetensorsFile::values<double>(std::string_view) const;
extern template std::vector<float> SafetensorsFile::values<float>(std::string_view) const;
extern template std::vector<std::int64_t> SafetensorsFile::values<std::int64_t>(std::string_view) const;
extern template std::vector<std::int32_t> SafetensorsFile::values<std::int32_t>(std::string_view) const;
extern template std::vector<std::uint8_t> SafetensorsFile::values<std::uint8_t>(std::string_view) const;

/// A tensor to be written. The bytes stay the caller's and must live until write_safetensors returns.
struct TensorBytes {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<std::ptrdiff_t> shape;
  std::span<const std::byte> bytes;  ///< Row-major, little-endian.
};

/// Returns the element type that stores T without change: F64, F32, I64, I32 or U8.
template <SafetensorsValue T>
constexpr Dtype dtype_of() noexcept {
  if constexpr (std::is_same_v<T, double>) {
    return Dtype::f64;
  } else if constexpr (std::is_same_v<T, float>) {
    return Dtype::f32;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return Dtype::i64;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return Dtype::i32;
  } else {
    return Dtype::u8;
  }
}

/// Describes row-major values of type T as a tensor to be written. Copies no values, checks nothing.
template <SafetensorsValue T>
TensorBytes tensor_bytes(std::string name, std::vector<std::ptrdiff_t> shape,
                         std::type_identity_t<std::span<const T>> values) {
  return {std::move(name), dtype_of<T>(), std::move(shape), std::as_bytes(values)};
}

/// Writes a .safetensors file, whole or not at all: the bytes go to a new file beside `path`, are flushed to
/// the disk and only then take the place of `path`, so that neither an error nor a power cut leaves half a
/// file. If the process dies midway, a file `path`.heed-<process>-<n>.tmp stays behind, which the next write
/// of `path` that succeeds removes. A file that is replaced passes on its permissions; a symbolic link stays,
/// and the file that it leads to is replaced.
///
/// Tensors are laid out by falling element size, then by name, and the data starts at a multiple of 8 bytes,
/// so each one is aligned for its type and equal content gives equal files.
///
/// Throws ArgumentError (a name that occurs twice, is "__metadata__", holds U+0000 or is no UTF-8; a header
/// above SafetensorsFile::kMaxHeaderBytes), ShapeError (shape and bytes that disagree) before anything is
/// written, and FileError naming the path if writing fails; what was at `path` is then unchanged.
HEED_EXPORT void write_safetensors(const std::filesystem::path& path, const std::vector<TensorBytes>& tensors,
                                   const std::map<std::string, std::string>& metadata = {});

}  // namespace heed
