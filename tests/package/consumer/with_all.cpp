// Links heed::heed: writes a file, reads it back, prints the library's version.

#include <heed/core/version.hpp>
#include <heed/io/safetensors.hpp>
#include <iostream>
#include <vector>

int main() {
  const std::vector<float> written = {1.5F, -2.0F};
  heed::write_safetensors("consumer.safetensors", {heed::tensor_bytes<float>("x", {2}, written)});
  if (heed::SafetensorsFile::open("consumer.safetensors").values<float>("x") != written) {
    std::cerr << "the file does not hold what was written\n";
    return 1;
  }
  std::cout << "heed " << heed::version() << '\n';
}
