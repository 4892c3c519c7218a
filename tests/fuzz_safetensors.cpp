// A libFuzzer target: whatever the bytes are, the reader refuses them with FileError or gives a consistent
// file. Build with clang and -DHEED_BUILD_FUZZERS=ON -DHEED_SANITIZE=address,undefined, run: fuzz_safetensors
// <folder>.

#include <cstdlib>
#include <cstring>

#include "heed/error.hpp"
#include "heed/safetensors.hpp"

namespace {

template <typename T>
void read_values(const heed::SafetensorsFile& file, const heed::TensorInfo& tensor) {
  try {
    if (file.values<T>(tensor.name).size() != tensor.size) {
      std::abort();
    }
  } catch (const heed::FileError&) {
    // a value or type that T does not take
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    std::vector<std::byte> bytes(size);
    if (size > 0) {
      std::memcpy(bytes.data(), data, size);
    }
    const heed::SafetensorsFile file = heed::SafetensorsFile::parse(std::move(bytes), "fuzzed");
    std::size_t total = 0;
    for (const heed::TensorInfo& tensor : file.tensors()) {
      total += file.bytes(tensor.name).size();
      read_values<double>(file, tensor);
      read_values<float>(file, tensor);
      read_values<std::int64_t>(file, tensor);
      read_values<std::uint8_t>(file, tensor);
    }
    if (total > size) {
      std::abort();
    }
  } catch (const heed::FileError&) {
    // a refusal is a good answer
  }
  return 0;
}
