// Files that are broken or made to break a reader. Each must be refused with a message, without taking memory
// by a number that the file claims.

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include <cstdlib>
#include <new>

#include "catch.hpp"
#include "heed/io/safetensors.hpp"
#include "safetensors_bytes.hpp"

using namespace heed_test;
using heed::SafetensorsFile;

namespace {

std::size_t largest_allocation = 0;

void* allocate(std::size_t size) {
  largest_allocation = std::max(largest_allocation, size);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) {
    return memory;
  }
  throw std::bad_alloc();
}

/// The message of the refusal; "" if the file is accepted, and a text that no check expects if a single
/// allocation was larger than a small multiple of the file.
std::string cheap_refusal(const Bytes& file) {
  const std::size_t limit = 4096 + 16 * file.size();
  largest_allocation = 0;
  std::string message = refusal(file);
  const std::size_t largest = largest_allocation;
  return largest <= limit ? message : "allocated " + std::to_string(largest) + " bytes";
}

std::string header_refusal(std::string_view header, std::size_t data_bytes = 0) {
  return cheap_refusal(file_of(header, Bytes(data_bytes)));
}

std::string tensor_refusal(std::string_view dtype, std::string_view shape, std::string_view offsets,
                           std::size_t data_bytes) {
  return cheap_refusal(one_tensor(dtype, shape, offsets, Bytes(data_bytes)));
}

}  // namespace

void* operator new(std::size_t size) {
  return allocate(size);
}
void* operator new[](std::size_t size) {
  return allocate(size);
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

TEST_CASE("a header length that is zero, beyond the file or beyond 63 bits is refused",
          "[safetensors][hostile]") {
  const std::string header = R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  const std::size_t size = 8 + header.size() + 1;
  CHECK(contains(cheap_refusal(file_with_length(0, header, Bytes(1))), "length 0"));
  for (const std::uint64_t length : {std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{0} - 7,
                                     std::uint64_t{size} - 7, std::uint64_t{size}}) {
    CHECK(contains(cheap_refusal(file_with_length(length, header, Bytes(1))),
                   "should have " + std::to_string(length) + " bytes, but only " + std::to_string(size - 8)));
  }
  CHECK(cheap_refusal(file_with_length(header.size(), header, Bytes(1))).empty());
}

TEST_CASE("a header that is cut or runs into the data is refused", "[safetensors][hostile]") {
  const std::string header = R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  for (std::size_t length = 1; length < header.size(); ++length) {
    CHECK(contains(cheap_refusal(file_with_length(length, header, Bytes(1))), "not valid JSON"));
  }
  CHECK(contains(cheap_refusal(file_with_length(header.size() + 1, header, Bytes(1))), "zero byte"));
}

TEST_CASE("files of 0 to 8 bytes are refused", "[safetensors][hostile]") {
  for (std::size_t size = 0; size <= 8; ++size) {
    for (const std::byte fill : {std::byte{0}, std::byte{1}, std::byte{0xff}}) {
      const std::string message = cheap_refusal(Bytes(size, fill));
      CHECK(contains(message, size < 8               ? std::to_string(size) + " bytes are too short"
                              : fill == std::byte{0} ? "length 0"
                                                     : "only 0 bytes follow"));
    }
  }
}

TEST_CASE("a file of another kind is called no safetensors file", "[safetensors][hostile]") {
  // Longer than eight characters, text reads as an enormous length; these are a model's usual neighbors.
  for (const std::string text :
       {"", "{}", "{\"vocab\": {\"a\": 0}}", "once upon a time there was a corpus",
        "PK\x03\x04 an archive of another library's weights", "GGUF and its version and its counts"}) {
    CAPTURE(text);
    CHECK(contains(cheap_refusal(bytes_of(text)), "is not a safetensors file"));
  }
  CHECK(contains(header_refusal("<html>"), "is not a safetensors file: the header must start with '{'"));
}

TEST_CASE("a header longer than the limit is refused before it is read", "[safetensors][hostile]") {
  // A file with a hole: it has the size, but takes neither disk nor memory.
  const TemporaryFolder folder;
  const std::size_t length = SafetensorsFile::kMaxHeaderBytes + 1;
  write_bytes(folder / "x", length_prefix(length));
  std::filesystem::resize_file(folder / "x", 8 + length);
  largest_allocation = 0;
  CHECK(contains(refusal_of([&] { SafetensorsFile::open(folder / "x"); }),
                 "longer than the limit of 100000000"));
  CHECK(largest_allocation < 4096);
}

TEST_CASE("a header that is no JSON object, or has anything around it, is refused",
          "[safetensors][hostile]") {
  for (const std::string header :
       {"[]", "1", "null", "\"x\"", "x", " {}", "\n{}", "\xef\xbb\xbf{}", "\xff"}) {
    CAPTURE(header);
    CHECK(contains(header_refusal(header), "must start with '{'"));
  }
  for (const std::string header :
       {"{}{}", "{} x", "{},", "{", "{]", "{\"x\"}", "{\"x\":}", "{x:1}", "{\"a\":1,}", "{}//", "{/**/}",
        "{'x':1}", "{\"x\":NaN}", "{\"x\":01}", "{\"\t\":1}"}) {
    CAPTURE(header);
    CHECK(!header_refusal(header).empty());
  }
  CHECK(contains(header_refusal(std::string("{}\0", 3)), "zero byte at 2"));
  CHECK(contains(header_refusal(std::string("{}\0{\"x\":1}", 10)), "zero byte at 2"));
  CHECK(header_refusal("{} \t\r\n ").empty());
}

TEST_CASE("a name that occurs twice is refused, however it is escaped", "[safetensors][hostile]") {
  const std::string tail = R"(:{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  CHECK(header_refusal("{\"a\"" + tail + ",\"b\"" + tail + "}").empty());
  CHECK(contains(header_refusal("{\"a\"" + tail + ",\"a\"" + tail + "}"), "tensor \"a\" occurs twice"));
  CHECK(contains(header_refusal("{\"a\"" + tail + ",\"b\"" + tail + ",\"\\u0061\"" + tail + "}"),
                 "tensor \"a\" occurs twice"));
  CHECK(contains(header_refusal(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                R"("x":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                                3),
                 "tensor \"x\" occurs twice"));
  CHECK(contains(header_refusal(R"({"__metadata__":{},"\u005f_metadata__":{}})"),
                 "\"__metadata__\" occurs twice"));
  CHECK(contains(header_refusal(R"({"__metadata__":{"a":"1","\u0061":"2"}})"), "has a key twice"));
  CHECK(
      contains(header_refusal(R"({"x":{"dtype":"U8","shape":[1],"sh\u0061pe":[2],"data_offsets":[0,1]}})", 1),
               "has the field \"shape\" twice"));
}

TEST_CASE("names that no text can hold are refused", "[safetensors][hostile]") {
  const std::string tail = R"(:{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})";
  CHECK(contains(header_refusal("{\"a\\u0000b\"" + tail), "U+0000"));
  for (const std::string name :
       {"\\ud83d", "\\ud83dx", "\\udc4d", "\\udc4d\\ud83d", "\\ud83d\\ud83d", "\\u00g0", "\\u12", "\\x41",
        "\xff", "\xc0\x80", "\xed\xa0\xbd", "\xf4\x90\x80\x80", "\xe6\x97"}) {
    CAPTURE(name);
    CHECK(contains(header_refusal("{\"" + name + "\"" + tail), "not valid JSON in UTF-8"));
  }
}

TEST_CASE("offsets that fall, are too few, too many, negative, fractional or beyond the data are refused",
          "[safetensors][hostile]") {
  CHECK(contains(tensor_refusal("U8", "[4]", "[8,4]", 8), "fall, from 8 to 4"));
  CHECK(contains(tensor_refusal("U8", "[0]", "[0]", 0), "two non-negative integers, not a list of 1"));
  CHECK(contains(tensor_refusal("U8", "[0]", "[]", 0), "a list of 0"));
  CHECK(contains(tensor_refusal("U8", "[4]", "[0,4,8]", 8), "two non-negative integers, not 8"));
  CHECK(contains(tensor_refusal("U8", "[4]", "[-1,3]", 4), "not -1"));
  CHECK(contains(tensor_refusal("U8", "[4]", "[-0,4]", 4), "integers, not 0"));
  CHECK(contains(tensor_refusal("U8", "[4]", "[0,1e30]", 4), "not \"1e30\""));
  CHECK(contains(tensor_refusal("U8", "[4]", "[0.0,4]", 4), "not \"0.0\""));
  CHECK(contains(tensor_refusal("U8", "[4]", "[0,18446744073709551616]", 4), "not \"18446744073709551616\""));
  CHECK(contains(tensor_refusal("U8", "[4]", "[0,18446744073709551615]", 4), "offset 18446744073709551615"));
  CHECK(contains(tensor_refusal("U8", "[5]", "[0,5]", 4), "offset 5, but the file has 4 bytes"));
  for (const std::string offsets :
       {"[0,\"4\"]", "[0,[4]]", "[0,null]", "[0,true]", "{}", "4", "\"0,4\"", "null"}) {
    CAPTURE(offsets);
    CHECK(contains(tensor_refusal("U8", "[4]", offsets, 4), "data_offsets that must be a list of two"));
  }
}

TEST_CASE("a shape that does not fit the bytes, overflows or is no list of sizes is refused",
          "[safetensors][hostile]") {
  CHECK(contains(tensor_refusal("F32", "[1000,1000]", "[0,4]", 4),
                 "shape (1000, 1000) needs 4000000 bytes, its data_offsets give it 4"));
  CHECK(contains(tensor_refusal("F32", "[]", "[0,0]", 0), "needs 4 bytes"));
  CHECK(contains(tensor_refusal("F32", "[0]", "[0,4]", 4), "needs 0 bytes"));
  // Products that come to 0, to 0 and to 4 bytes modulo 2^64.
  for (const std::string shape :
       {"[4294967296,4294967296]", "[4611686018427387904]", "[9223372036854775807,0,4]",
        "[0,9223372036854775807,4]", "[3037000500,3037000500,3037000500]"}) {
    CAPTURE(shape);
    CHECK(contains(tensor_refusal("F32", shape, "[0,0]", 0), "whole number of bytes that memory can hold"));
  }
  CHECK(contains(tensor_refusal("F32", "[13835058055282163713]", "[0,4]", 4), "not 13835058055282163713"));
  for (const std::string shape :
       {"[1.0]", "[1e0]", "[-1]", "[-0]", "[\"1\"]", "[null]", "[true]", "[[1]]", "[{}]", "1", "null", "{}",
        "\"\"", "[18446744073709551616]", "[9223372036854775808]"}) {
    CAPTURE(shape);
    CHECK(contains(tensor_refusal("U8", shape, "[0,1]", 1),
                   "shape that must be a list of integers from 0 to 2^63 - 1"));
  }
  std::string ones = "[1";
  for (std::size_t i = 1; i < SafetensorsFile::kMaxRank; ++i) {
    ones += ",1";
  }
  CHECK(tensor_refusal("U8", ones + "]", "[0,1]", 1).empty());
  CHECK(contains(tensor_refusal("U8", ones + ",1]", "[0,1]", 1), "more than 64 dimensions"));
}

TEST_CASE("tensors that overlap, leave a gap or leave a rest are refused", "[safetensors][hostile]") {
  const auto two = [](const std::string& size_a, const std::string& a, const std::string& size_b,
                      const std::string& b, std::size_t data_bytes) {
    return header_refusal(R"({"a":{"dtype":"U8","shape":[)" + size_a + R"(],"data_offsets":)" + a +
                              R"(},"b":{"dtype":"U8","shape":[)" + size_b + R"(],"data_offsets":)" + b + "}}",
                          data_bytes);
  };
  CHECK(two("4", "[0,4]", "4", "[4,8]", 8).empty());
  CHECK(contains(two("4", "[0,4]", "6", "[2,8]", 8), "tensors \"a\" and \"b\" overlap"));
  CHECK(contains(two("4", "[0,4]", "4", "[0,4]", 4), "overlap"));
  CHECK(contains(two("8", "[0,8]", "2", "[2,4]", 8), "overlap"));
  CHECK(contains(two("8", "[0,8]", "0", "[4,4]", 8), "overlap"));
  CHECK(contains(two("6", "[2,8]", "4", "[0,4]", 8), "tensors \"b\" and \"a\" overlap"));
  CHECK(contains(two("4", "[0,4]", "3", "[5,8]", 8), "byte 4 of the 8 bytes of data belongs to no tensor"));
  CHECK(contains(two("3", "[1,4]", "4", "[4,8]", 8), "byte 0 of the 8"));
  CHECK(contains(two("4", "[0,4]", "3", "[4,7]", 8), "byte 7 of the 8"));
  CHECK(contains(two("4", "[0,4]", "0", "[6,6]", 8), "byte 4 of the 8"));
  CHECK(contains(header_refusal("{}", 1), "byte 0 of the 1 bytes"));
}

TEST_CASE("an unknown dtype, a missing field, an unknown field and a wrong type are refused",
          "[safetensors][hostile]") {
  for (const std::string dtype : {"F128", "f32", "F32 ", "", "U4", "F32\\u0000"}) {
    CAPTURE(dtype);
    CHECK(contains(tensor_refusal(dtype, "[1]", "[0,4]", 4), "unknown dtype"));
  }
  CHECK(contains(header_refusal(R"({"x":{"dtype":"U8","data_offsets":[0,1]}})", 1),
                 "tensor \"x\" has no shape"));
  CHECK(contains(header_refusal(R"({"x":{"shape":[1],"data_offsets":[0,1]}})", 1), "has no dtype"));
  CHECK(contains(header_refusal(R"({"x":{"dtype":"U8","shape":[1]}})", 1), "has no data_offsets"));
  CHECK(contains(header_refusal(R"({"x":{}})"), "has no dtype"));
  CHECK(contains(header_refusal(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"strides":[1]}})", 1),
                 "unknown field \"strides\""));
  for (const std::string value : {"1", "null", "[\"U8\"]", "{}", "1.5", "-1", "true"}) {
    CAPTURE(value);
    CHECK(contains(header_refusal(R"({"x":{"dtype":)" + value + R"(,"shape":[1],"data_offsets":[0,1]}})", 1),
                   "dtype that must be a string"));
    CHECK((value == "{}" ||
           contains(header_refusal("{\"x\":" + value + "}"), "tensor \"x\" must be an object")));
  }
}

TEST_CASE("metadata other than strings by key is refused", "[safetensors][hostile]") {
  for (const std::string value : {"1", "-1", "1.5", "null", "true", "[]", "{}", "[\"a\"]"}) {
    CAPTURE(value);
    CHECK(contains(header_refusal(R"({"__metadata__":{"k":)" + value + "}}"),
                   "key \"k\", which must be a string"));
    CHECK((value == "{}" ||
           contains(header_refusal(R"({"__metadata__":)" + value + "}"), "must be an object")));
  }
  CHECK(contains(header_refusal(R"({"__metadata__":"k"})"), "\"__metadata__\" must be an object"));
}

TEST_CASE("100 000 nested brackets are refused on a stack of 256 KB", "[safetensors][hostile]") {
  const auto run = [](void*) -> void* {
    static std::vector<std::string> messages;
    messages.clear();
    const std::string brackets(100'000, '[');
    const std::string braces = [] {
      std::string text;
      for (int i = 0; i < 100'000; ++i) {
        text += "{\"a\":";
      }
      return text;
    }();
    messages.push_back(header_refusal(brackets));
    messages.push_back(header_refusal(braces));
    messages.push_back(header_refusal("{\"x\":" + brackets));
    messages.push_back(header_refusal("{\"x\":{\"shape\":" + brackets + std::string(100'000, ']')));
    messages.push_back(header_refusal("{\"x\":{\"strides\":" + brackets));
    messages.push_back(header_refusal("{\"__metadata__\":" + braces));
    return &messages;
  };
  pthread_attr_t attributes;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  REQUIRE(pthread_attr_setstacksize(&attributes, 256 * 1024) == 0);
  pthread_t thread{};
  REQUIRE(pthread_create(&thread, &attributes, run, nullptr) == 0);
  void* result = nullptr;
  REQUIRE(pthread_join(thread, &result) == 0);
  pthread_attr_destroy(&attributes);
  const auto& messages = *static_cast<std::vector<std::string>*>(result);
  REQUIRE(messages.size() == 6);
  CHECK(contains(messages[0], "must start with '{'"));
  CHECK(contains(messages[1], "tensor \"a\" has the unknown field \"a\""));
  CHECK(contains(messages[2], "must be an object, not a list"));
  CHECK(contains(messages[3], "shape that must be a list of integers"));
  CHECK(contains(messages[4], "unknown field \"strides\""));
  CHECK(contains(messages[5], "key \"a\", which must be a string, not an object"));
}

TEST_CASE("messages neither repeat long texts nor pass on control characters", "[safetensors][hostile]") {
  const std::string message = header_refusal("{\"\\u001b[31m\\u202e\\u009b" + std::string(5000, 'n') +
                                             "\":{\"\\n" + std::string(5000, 'f') + "\":1}}");
  CHECK(contains(message, "tensor \"\\x1b[31m\\u202e\\u009bnnn"));
  CHECK(contains(message, "unknown field \"\\x0afff"));
  CHECK(message.size() < 300);
  CHECK(header_refusal("{\"x\":" + std::string(5000, '9') + "}").size() < 300);
  CHECK(header_refusal("{\"x\":" + std::string(5000, 'q') + "}").size() < 300);
  CHECK(contains(header_refusal("{\"\x1b\xff\":1}"), "\\x1b\\xff"));
}

TEST_CASE("any one byte changed in a good file never does worse than a refusal", "[safetensors][hostile]") {
  const Bytes good =
      file_of(R"({"__metadata__":{"k":"v"},"a":{"dtype":"F16","shape":[2,1],"data_offsets":[0,4]},)"
              R"("b":{"dtype":"BOOL","shape":[],"data_offsets":[4,5]}})",
              Bytes(5, std::byte{1}));
  REQUIRE(refusal(good).empty());
  const std::string values("\0\x01\n\x7f\x80\xc3\xff {}[]\",:\\0129-.eua_", 26);
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const char value : values) {
      Bytes changed = good;
      changed[i] = static_cast<std::byte>(value);
      const std::string message = refusal_of([&] {
        const SafetensorsFile file = SafetensorsFile::parse(changed, "f");
        std::size_t total = 0;
        for (const heed::TensorInfo& tensor : file.tensors()) {
          total += file.bytes(tensor.name).size();
        }
        REQUIRE(total == 5);
      });
      REQUIRE((message.empty() || contains(message, "file \"f\": ") ||
               contains(message, "file \"f\" is not a safetensors file")));
    }
  }
}

TEST_CASE("what is no readable regular file is refused by its path", "[safetensors][hostile]") {
  const TemporaryFolder folder;
  const auto open_refusal = [&](const std::filesystem::path& path) {
    const std::string message = refusal_of([&] { SafetensorsFile::open(path); });
    return contains(message, path.native()) ? message : "does not name the path: " + message;
  };
  CHECK(contains(open_refusal(folder / "missing"), "No such file"));
  CHECK(contains(open_refusal(folder.path()), "a directory"));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(contains(open_refusal(folder / "pipe"), "not a regular file"));
  CHECK(contains(open_refusal("/dev/null"), "not a regular file"));
  CHECK(contains(open_refusal(""), "No such file"));
  write_bytes(folder / "file", Bytes(3));
  CHECK(contains(open_refusal(folder / "file"), "3 bytes are too short"));
  CHECK(contains(open_refusal(folder / "file" / "x"), "Not a directory"));
  std::filesystem::create_symlink("loop", folder / "loop");
  CHECK(contains(open_refusal(folder / "loop"), "symbolic link"));
  CHECK(contains(refusal_of([&] { SafetensorsFile::open(std::string("a\0b", 3)); }), "zero byte"));
  // The superuser may read every file, so the test gives that up for a moment.
  write_bytes(folder / "secret", Bytes(3));
  std::filesystem::permissions(folder / "secret", std::filesystem::perms::none);
  const uid_t user = ::geteuid();
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  REQUIRE((user != 0 || ::seteuid(65534) == 0));
  const std::string message = open_refusal(folder / "secret");
  REQUIRE(::seteuid(user) == 0);
  CHECK(contains(message, "Permission denied"));
}

TEST_CASE("a file on disk is checked as one in memory is", "[safetensors][hostile]") {
  const TemporaryFolder folder;
  const Bytes good = one_tensor("F32", "[2]", "[0,8]", data_of(std::vector<float>{1, 2}));
  write_bytes(folder / "good", good);
  CHECK(SafetensorsFile::open(folder / "good").values<float>("x") == std::vector<float>{1, 2});
  for (std::size_t size = 0; size < good.size(); ++size) {
    write_bytes(folder / "cut", Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)));
    CHECK(contains(refusal_of([&] { SafetensorsFile::open(folder / "cut"); }), (folder / "cut").native()));
  }
  Bytes longer = good;
  longer.push_back(std::byte{0});
  write_bytes(folder / "longer", longer);
  CHECK(contains(refusal_of([&] { SafetensorsFile::open(folder / "longer"); }), "belongs to no tensor"));
}
