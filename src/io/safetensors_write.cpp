// Writes safetensors files: the header, the alignment of the data, and the order of the tensors.

#include <algorithm>
#include <array>
#include <tuple>

#include "heed/core/error.hpp"
#include "heed/io/safetensors.hpp"
#include "io/dtype.hpp"
#include "io/file.hpp"
#include "io/json_string.hpp"
#include "io/quote.hpp"
#include "io/safetensors_header.hpp"

namespace heed {
namespace {

constexpr std::size_t kDataAlignment = 8;

void check_tensor(const TensorBytes& tensor) {
  const std::string what = "tensor " + io::quote(tensor.name);
  if (tensor.name == io::kMetadataKey) {
    throw_argument_error(what + " has the name that stands for the metadata");
  }
  if (tensor.name.find('\0') != std::string::npos) {
    throw_argument_error(what + " has U+0000 in its name");
  }
  if (dtype_bits(tensor.dtype) == 0) {
    throw_argument_error(what + " has no valid dtype, but the number " +
                         std::to_string(static_cast<int>(tensor.dtype)));
  }
  if (tensor.shape.size() > SafetensorsFile::kMaxRank) {
    throw_shape_error(what + " has " + std::to_string(tensor.shape.size()) + " dimensions, more than " +
                      std::to_string(SafetensorsFile::kMaxRank));
  }
  const std::string layout =
      " of dtype " + std::string(dtype_name(tensor.dtype)) + " and shape " + io::shape_text(tensor.shape);
  const std::optional<io::Extent> extent = io::extent_of(tensor.dtype, tensor.shape);
  if (!extent) {
    throw_shape_error(what + layout + " does not come to a whole number of bytes that memory can hold");
  }
  if (extent->bytes != tensor.bytes.size()) {
    throw_shape_error(what + layout + " needs " + std::to_string(extent->bytes) + " bytes, " +
                      std::to_string(tensor.bytes.size()) + " were given");
  }
}

/// The tensors in the order of the file: each begins at a multiple of its element size, if that is whole
/// bytes.
std::vector<const TensorBytes*> file_order(const std::vector<TensorBytes>& tensors) {
  std::vector<const TensorBytes*> order;
  order.reserve(tensors.size());
  for (const TensorBytes& tensor : tensors) {
    check_tensor(tensor);
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(),
            [](const TensorBytes* a, const TensorBytes* b) { return a->name < b->name; });
  const auto same =
      std::adjacent_find(order.begin(), order.end(),
                         [](const TensorBytes* a, const TensorBytes* b) { return a->name == b->name; });
  if (same != order.end()) {
    throw_argument_error("tensor " + io::quote((*same)->name) + " occurs twice");
  }
  std::stable_sort(order.begin(), order.end(), [](const TensorBytes* a, const TensorBytes* b) {
    return dtype_bits(a->dtype) > dtype_bits(b->dtype);
  });
  return order;
}

std::string shape_list(const std::vector<std::ptrdiff_t>& shape) {
  std::string list;
  for (const std::ptrdiff_t dimension : shape) {
    if (!list.empty()) list += ',';
    list += std::to_string(dimension);
  }
  return list;
}

std::string header_text(const std::vector<const TensorBytes*>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  const auto separate = [&text] { text += text.back() == '{' ? "" : ","; };
  if (!metadata.empty()) {
    text += '"' + std::string(io::kMetadataKey) + "\":{";
    for (const auto& [key, value] : metadata) {
      separate();
      text +=
          io::json_string(key, "the metadata's key") + ":" + io::json_string(value, "the metadata's value");
    }
    text += '}';
  }
  std::size_t begin = 0;
  for (const TensorBytes* tensor : tensors) {
    const std::size_t end = begin + tensor->bytes.size();
    separate();
    text += io::json_string(tensor->name, "the tensor's name") + R"(:{"dtype":")" +
            std::string(dtype_name(tensor->dtype)) + R"(","shape":[)" + shape_list(tensor->shape) +
            R"(],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(end) + "]}";
    begin = end;
  }
  text += '}';
  // The prefix has 8 bytes, so a header of a multiple of 8 aligns the data.
  text.append((kDataAlignment - text.size() % kDataAlignment) % kDataAlignment, ' ');
  return text;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<TensorBytes>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::vector<const TensorBytes*> order = file_order(tensors);
  const std::string header = header_text(order, metadata);
  if (header.size() > SafetensorsFile::kMaxHeaderBytes) {
    throw_argument_error("the names and metadata need a header of " + std::to_string(header.size()) +
                         " bytes, the limit is " + std::to_string(SafetensorsFile::kMaxHeaderBytes));
  }
  std::array<std::byte, 8> prefix{};
  for (std::size_t i = 0; i < prefix.size(); ++i) {
    prefix[i] = static_cast<std::byte>((static_cast<std::uint64_t>(header.size()) >> (8 * i)) & 0xff);
  }
  std::vector<std::span<const std::byte>> parts = {prefix, std::as_bytes(std::span(header))};
  for (const TensorBytes* tensor : order) {
    parts.push_back(tensor->bytes);
  }
  io::replace_file(path, parts);
}

}  // namespace heed
