// SafetensorsFile: opens a file or a buffer, and finds tensors by name.

#include <algorithm>
#include <cstring>
#include <utility>

#include "heed/core/error.hpp"
#include "heed/io/safetensors.hpp"
#include "io/file.hpp"
#include "io/quote.hpp"
#include "io/safetensors_header.hpp"

namespace heed {
namespace {

constexpr std::size_t kPrefixBytes = 8;

std::string message_name(const std::string& name) {
  return "file " + io::quote(name, name.size());
}

/// The length of the header, from the first 8 bytes of a file of `file_bytes` bytes.
std::size_t header_length(std::span<const std::byte, kPrefixBytes> prefix, std::size_t file_bytes,
                          const std::string& file) {
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kPrefixBytes; ++i) {
    length |= std::to_integer<std::uint64_t>(prefix[i]) << (8 * i);
  }
  if (length == 0) {
    throw_file_error(file + " is not a safetensors file: its header has length 0");
  }
  if (length > file_bytes - kPrefixBytes) {
    throw_file_error(file + " is not a safetensors file, or is cut short: its header should have " +
                     std::to_string(length) + " bytes, but only " +
                     std::to_string(file_bytes - kPrefixBytes) + " bytes follow");
  }
  if (length > SafetensorsFile::kMaxHeaderBytes) {
    throw_file_error(file + " is not a safetensors file: its header of " + std::to_string(length) +
                     " bytes is longer than the limit of " +
                     std::to_string(SafetensorsFile::kMaxHeaderBytes));
  }
  return static_cast<std::size_t>(length);
}

[[noreturn]] void refuse_short_file(std::size_t file_bytes, const std::string& file) {
  throw_file_error(file + " is not a safetensors file: " + std::to_string(file_bytes) +
                   " bytes are too short for one");
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  io::InputFile input(path);
  SafetensorsFile result;
  result.name_ = message_name(path.native());
  if (input.size() < kPrefixBytes) {
    refuse_short_file(input.size(), result.name_);
  }
  std::array<std::byte, kPrefixBytes> prefix{};
  input.read(prefix);
  const std::size_t length = header_length(prefix, input.size(), result.name_);
  std::vector<std::byte> text(length);
  input.read(text);
  const std::size_t data_bytes = input.size() - kPrefixBytes - length;
  io::SafetensorsHeader header = io::parse_safetensors_header(as_text(text), data_bytes, result.name_);
  result.tensors_ = std::move(header.tensors);
  result.by_name_ = std::move(header.by_name);
  result.metadata_ = std::move(header.metadata);
  result.storage_.resize(data_bytes);
  input.read(result.storage_);
  return result;
}

SafetensorsFile SafetensorsFile::parse(std::vector<std::byte> bytes, const std::string& name) {
  SafetensorsFile result;
  result.name_ = message_name(name);
  if (bytes.size() < kPrefixBytes) {
    refuse_short_file(bytes.size(), result.name_);
  }
  const std::span<const std::byte> all(bytes);
  const std::size_t length = header_length(all.first<kPrefixBytes>(), bytes.size(), result.name_);
  result.data_start_ = kPrefixBytes + length;
  io::SafetensorsHeader header = io::parse_safetensors_header(
      as_text(all.subspan(kPrefixBytes, length)), bytes.size() - result.data_start_, result.name_);
  result.tensors_ = std::move(header.tensors);
  result.by_name_ = std::move(header.by_name);
  result.metadata_ = std::move(header.metadata);
  result.storage_ = std::move(bytes);
  return result;
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const noexcept {
  const auto place =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [this](std::size_t i, std::string_view wanted) { return tensors_[i].name < wanted; });
  if (place == by_name_.end() || tensors_[*place].name != name) {
    return nullptr;
  }
  return &tensors_[*place];
}

const TensorInfo& SafetensorsFile::at(std::string_view name) const {
  const TensorInfo* tensor = find(name);
  if (tensor == nullptr) {
    throw_file_error(name_ + ": there is no tensor " + io::quote(name));
  }
  return *tensor;
}

std::span<const std::byte> SafetensorsFile::bytes(std::string_view name) const {
  const TensorInfo& tensor = at(name);
  return std::span<const std::byte>(storage_).subspan(data_start_ + tensor.begin, tensor.end - tensor.begin);
}

}  // namespace heed
