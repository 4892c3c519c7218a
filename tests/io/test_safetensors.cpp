// Reading safetensors: the table of tensors, every dtype, and what is refused.

#include <bit>
#include <cmath>
#include <limits>

#include "catch.hpp"
#include "heed/io/safetensors.hpp"
#include "safetensors_bytes.hpp"

using namespace heed_test;
using heed::Dtype;
using heed::SafetensorsFile;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// The values of a one-dimensional tensor "x" made of these stored elements.
template <typename T, typename Stored>
std::vector<T> converted(std::string_view dtype, const std::vector<Stored>& stored) {
  const Bytes data = data_of(stored);
  const SafetensorsFile file =
      SafetensorsFile::parse(one_tensor(dtype, "[" + std::to_string(stored.size()) + "]",
                                        "[0," + std::to_string(data.size()) + "]", data),
                             "f");
  return file.values<T>("x");
}

template <typename T, typename Stored>
std::string refused(std::string_view dtype, const std::vector<Stored>& stored) {
  return refusal_of([&] { converted<T>(dtype, stored); });
}

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

}  // namespace

TEST_CASE("a file says what its tensors are, in the order of their data", "[safetensors]") {
  const SafetensorsFile file = SafetensorsFile::parse(
      file_of(
          R"({"b":{"dtype":"F32","shape":[2,1],"data_offsets":[2,10]},)"
          R"("a":{"data_offsets":[0,2],"shape":[],"dtype":"I16"},"__metadata__":{"k":"v","":"日本\u0000"}})",
          Bytes(10)),
      "f");
  REQUIRE(file.tensors().size() == 2);
  CHECK(file.tensors()[0].name == "a");
  CHECK(file.tensors()[0].dtype == Dtype::i16);
  CHECK(file.tensors()[0].shape.empty());
  CHECK(file.tensors()[0].size == 1);
  CHECK(file.tensors()[1].name == "b");
  CHECK(file.tensors()[1].shape == std::vector<std::ptrdiff_t>{2, 1});
  CHECK(file.tensors()[1].size == 2);
  CHECK(file.tensors()[1].begin == 2);
  CHECK(file.tensors()[1].end == 10);
  CHECK(file.find("b") == &file.tensors()[1]);
  CHECK(&file.at("a") == &file.tensors()[0]);
  CHECK(file.find("c") == nullptr);
  CHECK(file.find("") == nullptr);
  CHECK(file.metadata() == std::map<std::string, std::string>{{"k", "v"}, {"", std::string("日本\0", 7)}});
}

TEST_CASE("the offsets are a tensor's place in the data, whatever its place in the header", "[safetensors]") {
  const SafetensorsFile file = SafetensorsFile::parse(
      file_of(
          R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
          bytes_of("\x01\x02\x03")),
      "f");
  CHECK(file.values<std::uint8_t>("a") == std::vector<std::uint8_t>{1});
  CHECK(file.values<std::uint8_t>("b") == std::vector<std::uint8_t>{2, 3});
  CHECK(file.bytes("b").size() == 2);
  CHECK(file.bytes("b")[1] == std::byte{3});
}

TEST_CASE("scalars, empty tensors, blanks after the header and files without tensors are accepted",
          "[safetensors]") {
  CHECK(SafetensorsFile::parse(file_of("{}"), "f").tensors().empty());
  CHECK(SafetensorsFile::parse(file_of(R"({"__metadata__":{}}   )"), "f").metadata().empty());
  CHECK(converted<float>("F32", std::vector<float>{}).empty());
  const SafetensorsFile file =
      SafetensorsFile::parse(file_of(R"({"z":{"dtype":"F32","shape":[0,1099511627776],"data_offsets":[4,4]},)"
                                     R"("y":{"dtype":"F32","shape":[3,0],"data_offsets":[4,4]},)"
                                     R"("s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                                     R"("t":{"dtype":"U8","shape":[1,1],"data_offsets":[4,5]}}      )",
                                     bytes_of(std::string("\x00\x00\x80\x3f\x07", 5))),
                             "f");
  CHECK(file.values<double>("s") == std::vector<double>{1});
  CHECK(file.values<double>("t") == std::vector<double>{7});
  CHECK(file.at("z").size == 0);
  CHECK(file.values<double>("z").empty());
  CHECK(file.bytes("y").empty());
}

TEST_CASE("names are compared after their escapes are resolved", "[safetensors]") {
  const SafetensorsFile file = SafetensorsFile::parse(
      file_of(R"({"\u0061\ud83d\udc4d\n":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})", Bytes(1)), "f");
  CHECK(file.find("a👍\n") != nullptr);
}

TEST_CASE("every dtype of the format is known by its name and size", "[safetensors]") {
  const std::vector<std::pair<std::string, std::size_t>> dtypes = {
      {"BOOL", 8},        {"F4", 4},          {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},   {"I8", 8},
      {"F8_E5M2", 8},     {"F8_E4M3", 8},     {"F8_E8M0", 8}, {"I16", 16},    {"U16", 16}, {"F16", 16},
      {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"BF16", 16},   {"I32", 32},    {"U32", 32}, {"F32", 32},
      {"C64", 64},        {"F64", 64},        {"I64", 64},    {"U64", 64}};
  for (const auto& [name, bits] : dtypes) {
    CAPTURE(name);
    const SafetensorsFile file = SafetensorsFile::parse(
        one_tensor(name, "[2,4]", "[0," + std::to_string(bits) + "]", Bytes(bits)), "f");
    CHECK(heed::dtype_name(file.at("x").dtype) == name);
    CHECK(heed::dtype_bits(file.at("x").dtype) == bits);
    CHECK(
        contains(refusal(one_tensor(name, "[2,4]", "[0," + std::to_string(bits + 1) + "]", Bytes(bits + 1))),
                 "needs " + std::to_string(bits) + " bytes"));
  }
  CHECK(contains(refusal(one_tensor("F4", "[3]", "[0,2]", Bytes(2))), "whole number of bytes"));
  CHECK(heed::dtype_bits(static_cast<Dtype>(99)) == 0);
  CHECK(heed::dtype_name(static_cast<Dtype>(-1)) == "(no dtype)");
}

TEST_CASE("F64 and F32 are converted exactly, or rounded to the nearest float", "[safetensors]") {
  const double third = 1.0 / 3;
  CHECK(converted<double>("F64", std::vector<double>{third, -0.0, 1e300}) ==
        std::vector<double>{third, -0.0, 1e300});
  CHECK(converted<float>("F64", std::vector<double>{third, 1e300, -1e300}) ==
        std::vector<float>{1.0F / 3, infinity, -infinity});
  CHECK(converted<double>("F32", std::vector<float>{0.1F, 1e-45F, -infinity}) ==
        std::vector<double>{0.1F, 1e-45F, -infinity});
  CHECK(std::isnan(converted<float>("F64", std::vector<double>{std::nan("")})[0]));
  CHECK(same_bits(converted<double>("F32", std::vector<float>{-0.0F})[0], -0.0));
}

TEST_CASE("F16 is converted exactly", "[safetensors]") {
  const std::vector<std::uint16_t> bits = {0x3c00, 0xc000, 0x7bff, 0x0001, 0x03ff,
                                           0x0400, 0x3555, 0x7c00, 0xfc00};
  const std::vector<double> expected = {1,
                                        -2,
                                        65504,
                                        std::ldexp(1, -24),
                                        std::ldexp(1023, -24),
                                        std::ldexp(1, -14),
                                        0.333251953125,
                                        infinity,
                                        -infinity};
  CHECK(converted<double>("F16", bits) == expected);
  CHECK(std::isnan(converted<double>("F16", std::vector<std::uint16_t>{0x7e00})[0]));
  CHECK(std::isnan(converted<double>("F16", std::vector<std::uint16_t>{0xfc01})[0]));
  CHECK(same_bits(converted<double>("F16", std::vector<std::uint16_t>{0x8000})[0], -0.0));
  // The finite values of one sign follow each other without a jump of more than one unit in the last place.
  std::vector<std::uint16_t> all(0x7c00);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<std::uint16_t>(i);
  }
  const std::vector<float> values = converted<float>("F16", all);
  for (std::size_t i = 1; i < values.size(); ++i) {
    const int exponent = std::max(static_cast<int>((i - 1) >> 10), 1);
    REQUIRE(values[i] - values[i - 1] == std::ldexp(1.0F, exponent - 25));
  }
}

TEST_CASE("BF16 is the upper half of a float", "[safetensors]") {
  const std::vector<std::uint16_t> bits = {0x3f80, 0xbf80, 0x4049, 0x0001, 0x7f7f, 0xff80};
  std::vector<float> expected;
  for (const std::uint16_t value : bits) {
    expected.push_back(std::bit_cast<float>(std::uint32_t{value} << 16));
  }
  CHECK(converted<float>("BF16", bits) == expected);
  CHECK(converted<double>("BF16", bits)[2] == 3.140625);
  CHECK(std::isnan(converted<float>("BF16", std::vector<std::uint16_t>{0x7fc0})[0]));
}

TEST_CASE("the two common F8 types are converted exactly", "[safetensors]") {
  const std::vector<std::uint8_t> e4m3 = {0x38, 0xb8, 0x01, 0x07, 0x08, 0x78, 0x7e};
  CHECK(converted<double>("F8_E4M3", e4m3) ==
        std::vector<double>{1, -1, std::ldexp(1, -9), std::ldexp(7, -9), std::ldexp(1, -6), 256, 448});
  CHECK(std::isnan(converted<double>("F8_E4M3", std::vector<std::uint8_t>{0x7f})[0]));
  CHECK(std::isnan(converted<double>("F8_E4M3", std::vector<std::uint8_t>{0xff})[0]));
  const std::vector<std::uint8_t> e5m2 = {0x3c, 0xbc, 0x01, 0x04, 0x7b, 0x7c, 0xfc};
  CHECK(converted<double>("F8_E5M2", e5m2) ==
        std::vector<double>{1, -1, std::ldexp(1, -16), std::ldexp(1, -14), 57344, infinity, -infinity});
  CHECK(std::isnan(converted<double>("F8_E5M2", std::vector<std::uint8_t>{0x7d})[0]));
}

TEST_CASE("integers and BOOL arrive unchanged or not at all", "[safetensors]") {
  CHECK(converted<std::int64_t>("I64", std::vector<std::int64_t>{INT64_MIN, -1, INT64_MAX}) ==
        std::vector<std::int64_t>{INT64_MIN, -1, INT64_MAX});
  CHECK(converted<std::int64_t>("I8", std::vector<std::int8_t>{-128, 127}) ==
        std::vector<std::int64_t>{-128, 127});
  CHECK(converted<std::int64_t>("I16", std::vector<std::int16_t>{-2}) == std::vector<std::int64_t>{-2});
  CHECK(converted<double>("I32", std::vector<std::int32_t>{INT32_MIN}) == std::vector<double>{INT32_MIN});
  CHECK(converted<std::int32_t>("U16", std::vector<std::uint16_t>{65535}) ==
        std::vector<std::int32_t>{65535});
  CHECK(converted<std::int64_t>("U32", std::vector<std::uint32_t>{UINT32_MAX}) ==
        std::vector<std::int64_t>{UINT32_MAX});
  CHECK(converted<float>("BOOL", std::vector<std::uint8_t>{0, 1}) == std::vector<float>{0, 1});
  CHECK(converted<std::uint8_t>("U8", std::vector<std::uint8_t>{255}) == std::vector<std::uint8_t>{255});

  const std::int64_t two_53 = std::int64_t{1} << 53;
  CHECK(converted<double>("I64", std::vector<std::int64_t>{two_53, -two_53, INT64_MIN, two_53 + 2}) ==
        std::vector<double>{0x1p53, -0x1p53, -0x1p63, 0x1p53 + 2});
  CHECK(converted<float>("U64", std::vector<std::uint64_t>{std::uint64_t{1} << 63}) ==
        std::vector<float>{0x1p63F});

  CHECK(contains(refused<double>("I64", std::vector<std::int64_t>{0, two_53 + 1}),
                 "value 9007199254740993 at element 1, which double cannot hold"));
  CHECK(contains(refused<double>("I64", std::vector<std::int64_t>{INT64_MAX}), "cannot hold"));
  CHECK(contains(refused<double>("I64", std::vector<std::int64_t>{-two_53 - 1}), "-9007199254740993"));
  CHECK(contains(refused<float>("I32", std::vector<std::int32_t>{16777217}), "float cannot hold"));
  CHECK(contains(refused<double>("U64", std::vector<std::uint64_t>{UINT64_MAX}), "18446744073709551615"));
  CHECK(contains(refused<std::int64_t>("U64", std::vector<std::uint64_t>{UINT64_MAX}),
                 "std::int64_t cannot hold"));
  CHECK(contains(refused<std::int32_t>("I64", std::vector<std::int64_t>{INT32_MIN - std::int64_t{1}}),
                 "cannot hold"));
  CHECK(contains(refused<std::uint8_t>("I32", std::vector<std::int32_t>{-1}), "value -1 at element 0"));
  CHECK(contains(refused<std::uint8_t>("I32", std::vector<std::int32_t>{256}), "value 256"));
  CHECK(contains(refused<std::uint8_t>("BOOL", std::vector<std::uint8_t>{0, 1, 2}), "byte 2 at element 2"));
}

TEST_CASE("floating-point tensors are not read as integers, and raw types not as numbers", "[safetensors]") {
  CHECK(contains(refused<std::int64_t>("F32", std::vector<float>{1}), "not converted to std::int64_t"));
  CHECK(
      contains(refused<std::uint8_t>("F16", std::vector<std::uint16_t>{0}), "not converted to std::uint8_t"));
  CHECK(contains(refused<std::int32_t>("F64", std::vector<double>{}), "F64"));
  for (const std::string dtype : {"F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}) {
    CHECK(contains(refused<float>(dtype, std::vector<std::uint8_t>{1}), "only be read as bytes"));
  }
  CHECK(contains(refused<double>("C64", std::vector<std::uint64_t>{1}), "C64"));
}

TEST_CASE("a missing tensor is an error that names the file and the tensor", "[safetensors]") {
  const SafetensorsFile file = SafetensorsFile::parse(file_of("{}"), "some file");
  const auto names_both = [](const std::string& message) {
    return contains(message, "\"some file\"") && contains(message, "no tensor \"w_q\"");
  };
  CHECK(names_both(refusal_of([&] { file.at("w_q"); })));
  CHECK(names_both(refusal_of([&] { file.bytes("w_q"); })));
  CHECK(names_both(refusal_of([&] { file.values<float>("w_q"); })));
}

TEST_CASE("a data section that no header length aligns is read all the same", "[safetensors]") {
  for (std::size_t blanks = 0; blanks < 8; ++blanks) {
    const std::vector<double> numbers = {1.5, -2.25};
    const SafetensorsFile file = SafetensorsFile::parse(
        file_of(R"({"x":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}})" + std::string(blanks, ' '),
                data_of(numbers)),
        "f");
    CHECK(file.values<double>("x") == numbers);
  }
}
