// A libFuzzer target: whatever the bytes are, the reader refuses them with FileError or gives a consistent
// file.

#include <cstring>

#include "byte_choices.hpp"
#include "heed/core/error.hpp"
#include "heed/io/safetensors.hpp"

namespace {

using heed::test::require_law;

template <typename T>
void read_values(const heed::SafetensorsFile& file, const heed::TensorInfo& tensor) {
  try {
    require_law(file.values<T>(tensor.name).size() == tensor.size, "a tensor has as many values as it says");
  } catch (const heed::FileError&) {
    // a value or type that T does not take
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    std::vector<std::byte> bytes(size);
    if (size > 0) std::memcpy(bytes.data(), data, size);
    const heed::SafetensorsFile file = heed::SafetensorsFile::parse(std::move(bytes), "fuzzed");
    std::size_t total = 0;
    for (const heed::TensorInfo& tensor : file.tensors()) {
      total += file.bytes(tensor.name).size();
      require_law(file.find(tensor.name) == &tensor, "a tensor is found by its name");
      read_values<double>(file, tensor);
      read_values<float>(file, tensor);
      read_values<std::int64_t>(file, tensor);
      read_values<std::int32_t>(file, tensor);
      read_values<std::uint8_t>(file, tensor);
    }
    require_law(total <= size, "tensors lie in the file");
  } catch (const heed::FileError&) {
    // a refusal is a good answer
  }
  return 0;
}
