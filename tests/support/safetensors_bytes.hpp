#pragma once

// Safetensors files made byte by byte, and files and folders to put them in.

#include <stdlib.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "heed/core/error.hpp"
#include "heed/io/safetensors.hpp"

namespace heed_test {

using Bytes = std::vector<std::byte>;

inline Bytes bytes_of(std::string_view text) {
  Bytes bytes(text.size());
  if (!text.empty()) {
    std::memcpy(bytes.data(), text.data(), text.size());
  }
  return bytes;
}

inline Bytes length_prefix(std::uint64_t length) {
  Bytes bytes;
  for (int i = 0; i < 8; ++i) {
    bytes.push_back(static_cast<std::byte>((length >> (8 * i)) & 0xff));
  }
  return bytes;
}

/// A file whose length prefix says `length`, whatever the header is.
inline Bytes file_with_length(std::uint64_t length, std::string_view header, const Bytes& data = {}) {
  Bytes file = length_prefix(length);
  const Bytes text = bytes_of(header);
  file.insert(file.end(), text.begin(), text.end());
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

inline Bytes file_of(std::string_view header, const Bytes& data = {}) {
  return file_with_length(header.size(), header, data);
}

/// One tensor "x" with these raw fields.
inline Bytes one_tensor(std::string_view dtype, std::string_view shape, std::string_view offsets,
                        const Bytes& data) {
  return file_of(R"({"x":{"dtype":")" + std::string(dtype) + R"(","shape":)" + std::string(shape) +
                     R"(,"data_offsets":)" + std::string(offsets) + "}}",
                 data);
}

template <typename T>
Bytes data_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!values.empty()) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
  }
  return bytes;
}

/// The message with which a call is refused as a FileError, or "" if it is accepted.
template <typename Call>
std::string refusal_of(Call call) {
  try {
    call();
  } catch (const heed::FileError& error) {
    return error.what();
  }
  return "";
}

inline std::string refusal(Bytes file) {
  return refusal_of([&] { heed::SafetensorsFile::parse(std::move(file), "f"); });
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// A new folder, removed with all that is in it at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "heed-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error("cannot create " + name);
    }
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      result.push_back(entry.path().filename().string());
    }
    return result;
  }

 private:
  std::filesystem::path path_;
};

inline void write_bytes(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

inline Bytes read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return bytes_of(std::string(std::istreambuf_iterator<char>(in), {}));
}

}  // namespace heed_test
