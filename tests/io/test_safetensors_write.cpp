// Writing safetensors: what is written reads back, a file is replaced whole, and what is refused leaves it as
// it was.

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>

#include "catch.hpp"
#include "heed/io/safetensors.hpp"
#include "safetensors_bytes.hpp"

using namespace heed_test;
using heed::Dtype;
using heed::SafetensorsFile;
using heed::tensor_bytes;
using heed::TensorBytes;
using heed::write_safetensors;

namespace {

const std::vector<float> two_floats = {1.5F, -2.25F};

/// Whether writing throws this kind of error with this in its text, and leaves nothing in the folder.
template <typename Error>
bool refused_as(const std::vector<TensorBytes>& tensors, const std::string& part,
                const std::map<std::string, std::string>& metadata = {}) {
  const TemporaryFolder folder;
  try {
    write_safetensors(folder / "x", tensors, metadata);
  } catch (const Error& error) {
    return contains(error.what(), part) && folder.names().empty();
  }
  return false;
}

}  // namespace

TEST_CASE("what is written is read again without change", "[safetensors][write]") {
  const TemporaryFolder folder;
  const std::vector<double> doubles = {0.1, -0.0, 1e-320};
  const std::vector<std::int64_t> longs = {INT64_MIN, INT64_MAX};
  const std::vector<std::int32_t> ints = {-1};
  const std::vector<std::uint8_t> bytes = {0, 255, 7};
  const Bytes raw = {std::byte{0x00}, std::byte{0x3c}, std::byte{0x80}};
  const std::map<std::string, std::string> metadata = {{"format", "x"}, {"quote\"\\\n", "日本"}};
  write_safetensors(
      folder / "x",
      {tensor_bytes<std::uint8_t>("u8", {3, 1}, bytes), tensor_bytes<double>("f64", {1, 3}, doubles),
       tensor_bytes<float>("日本\"\n", {2}, two_floats), tensor_bytes<std::int64_t>("i64", {2}, longs),
       tensor_bytes<std::int32_t>("i32", {}, ints), tensor_bytes<float>("empty", {0, 5}, {}),
       TensorBytes{"f6", Dtype::f6_e2m3, {4}, raw}},
      metadata);
  const SafetensorsFile file = SafetensorsFile::open(folder / "x");
  CHECK(file.tensors().size() == 7);
  CHECK(file.metadata() == metadata);
  CHECK(data_of(file.values<double>("f64")) == data_of(doubles));
  CHECK(file.at("f64").shape == std::vector<std::ptrdiff_t>{1, 3});
  CHECK(file.values<float>("日本\"\n") == two_floats);
  CHECK(file.values<std::int64_t>("i64") == longs);
  CHECK(file.values<std::int32_t>("i32") == ints);
  CHECK(file.at("i32").shape.empty());
  CHECK(file.values<std::uint8_t>("u8") == bytes);
  CHECK(file.at("empty").shape == std::vector<std::ptrdiff_t>{0, 5});
  CHECK(Bytes(file.bytes("f6").begin(), file.bytes("f6").end()) == raw);
}

TEST_CASE("the written bytes are those of the format, aligned, and the same for the same content",
          "[safetensors][write]") {
  const TemporaryFolder folder;
  const std::vector<std::uint8_t> byte = {9};
  const TensorBytes a = tensor_bytes<std::uint8_t>("a", {1}, byte);
  const TensorBytes b = tensor_bytes<float>("b", {2}, two_floats);
  write_safetensors(folder / "x", {a, b}, {{"k", "v"}});
  write_safetensors(folder / "y", {b, a}, {{"k", "v"}});
  std::string header = R"({"__metadata__":{"k":"v"},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                       R"("a":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  Bytes data = data_of(two_floats);
  data.push_back(std::byte{9});
  CHECK(read_bytes(folder / "x") == file_of(header, data));
  CHECK(read_bytes(folder / "y") == file_of(header, data));
  write_safetensors(folder / "z", {});
  CHECK(read_bytes(folder / "z") == file_of("{}      "));
}

TEST_CASE("tensors that a reader would refuse are not written", "[safetensors][write]") {
  const auto floats = [](std::string name, std::vector<std::ptrdiff_t> shape) {
    return tensor_bytes<float>(std::move(name), std::move(shape), two_floats);
  };
  CHECK(
      refused_as<heed::ArgumentError>({floats("a", {2}), floats("a", {1, 2})}, "tensor \"a\" occurs twice"));
  CHECK(refused_as<heed::ArgumentError>({floats("__metadata__", {2})}, "stands for the metadata"));
  CHECK(refused_as<heed::ArgumentError>({floats(std::string("a\0", 2), {2})}, "U+0000"));
  CHECK(refused_as<heed::ArgumentError>({floats("\xff", {2})}, "name \"\\xff\" is not valid UTF-8"));
  CHECK(refused_as<heed::ArgumentError>({}, "value \"\\xed", {{"k", "\xed\xa0\x80"}}));
  CHECK(refused_as<heed::ArgumentError>({}, "key \"\\xed", {{"\xed\xa0\x80", ""}}));
  CHECK(refused_as<heed::ArgumentError>({TensorBytes{"a", static_cast<Dtype>(99), {}, {}}}, "the number 99"));
  CHECK(refused_as<heed::ArgumentError>({}, "limit is 100000000", {{"k", std::string(100'000'000, 'v')}}));
  CHECK(refused_as<heed::ShapeError>({floats("a", {3})}, "shape (3) needs 12 bytes, 8 were given"));
  CHECK(refused_as<heed::ShapeError>({floats("a", {})}, "needs 4 bytes"));
  CHECK(refused_as<heed::ShapeError>({floats("a", {-1, -2})}, "(-1, -2)"));
  CHECK(refused_as<heed::ShapeError>({floats("a", {PTRDIFF_MAX, 4, 0})}, "memory can hold"));
  CHECK(refused_as<heed::ShapeError>({floats("a", std::vector<std::ptrdiff_t>(65, 1))}, "65 dimensions"));
}

TEST_CASE("a written file replaces the old one, keeps its permissions and leaves nothing beside it",
          "[safetensors][write]") {
  const TemporaryFolder folder;
  write_bytes(folder / "x", Bytes(1000));
  std::filesystem::permissions(folder / "x", std::filesystem::perms{0640});
  write_safetensors(folder / "x", {tensor_bytes<float>("a", {2}, two_floats)});
  CHECK(SafetensorsFile::open(folder / "x").values<float>("a") == two_floats);
  CHECK(std::filesystem::status(folder / "x").permissions() == std::filesystem::perms{0640});
  CHECK(folder.names() == std::vector<std::string>{"x"});
}

TEST_CASE("a new file has the permissions that the process gives to new files", "[safetensors][write]") {
  const TemporaryFolder folder;
  const mode_t old_mask = ::umask(027);
  write_safetensors(folder / "x", {});
  ::umask(old_mask);
  CHECK(std::filesystem::status(folder / "x").permissions() == std::filesystem::perms{0640});
}

TEST_CASE("a file that is called much like a temporary one is neither used nor removed",
          "[safetensors][write]") {
  const TemporaryFolder folder;
  const std::string leftover = "x." + std::to_string(::getpid()) + "-0.tmp";
  write_bytes(folder / leftover, Bytes(3));
  write_safetensors(folder / "x", {});
  CHECK(SafetensorsFile::open(folder / "x").tensors().empty());
  CHECK(read_bytes(folder / leftover) == Bytes(3));
}

TEST_CASE("an error while writing leaves the old file and nothing else", "[safetensors][write]") {
  const TemporaryFolder folder;
  write_safetensors(folder / "x", {tensor_bytes<float>("old", {2}, two_floats)});
  const Bytes before = read_bytes(folder / "x");
  const std::vector<double> many(4096);
  // A limit on the size of files stands for a full disk.
  rlimit old_limit{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &old_limit) == 0);
  rlimit limit = old_limit;
  limit.rlim_cur = 1000;
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  const std::string message =
      refusal_of([&] { write_safetensors(folder / "x", {tensor_bytes<double>("new", {4096}, many)}); });
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &old_limit) == 0);
  std::signal(SIGXFSZ, old_handler);
  CHECK(contains(message, "cannot write \"" + (folder / "x").native() + "\": File too large"));
  CHECK(read_bytes(folder / "x") == before);
  CHECK(folder.names() == std::vector<std::string>{"x"});
}

TEST_CASE("a path that no file can take is refused by its name", "[safetensors][write]") {
  const TemporaryFolder folder;
  const auto write_refusal = [&](const std::filesystem::path& path) {
    const std::string message = refusal_of([&] { write_safetensors(path, {}); });
    return contains(message, path.native()) ? message : "does not name the path: " + message;
  };
  CHECK(contains(write_refusal(folder / "missing" / "x"), "No such file"));
  CHECK(contains(write_refusal(folder.path()), "not a regular file"));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(contains(write_refusal(folder / "pipe"), "not a regular file"));
  CHECK(contains(refusal_of([&] { write_safetensors(std::string("a\0b", 3), {}); }), "zero byte"));
  CHECK(folder.names() == std::vector<std::string>{"pipe"});
}
