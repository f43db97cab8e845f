// Headers that hold and headers that lie. The verdicts are those of version 0.8 of the safetensors library, but that it lets a later
// duplicate of a name win, white space before the header pass, and a list stand for an entry.
#include "kime/model/safetensors.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/checkpoint_writer.h"

namespace {

using kime::File;
using kime::Result;
using kime::Safetensors;
using kime::test::read_file;
using kime::test::safetensors_file;
using kime::test::TempDir;
using kime::test::TestTensor;
using kime::test::write_file;

Result<Safetensors> open(const std::string& path) {
  auto file = File::open(path);
  if (!file) {
    return std::move(file).error();
  }
  return Safetensors::open(*std::move(file));
}

// A file with this length field, whatever follows.
std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + rest;
}

TEST_CASE("a file that holds is read as it says") {
  const TempDir dir;
  const auto path = dir.path() + "/x.safetensors";
  // In a header's order b stands before a, in the data behind it; s is a scalar, e has no elements.
  write_file(path, safetensors_file(R"({"b": {"dtype": "F16", "shape": [2, 1], "data_offsets": [4, 8]}, "__metadata__": {"format": "pt"},
      "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], "note": {"more": [1, 2.5]}}, "s": {"dtype": "I8", "shape": [], "data_offsets": [8, 9]},
      "e": {"dtype": "F64", "shape": [0, 18446744073709551615, 3], "data_offsets": [4, 4]}})",
                                    "abcdefghi"));
  const auto file = open(path);
  if (!file) {
    FAIL(file.error().text());
  }
  REQUIRE(file->entries().size() == 4);
  const auto& a = file->entries()[0];
  const auto& e = file->entries()[1];
  const auto& b = file->entries()[2];
  const auto& s = file->entries()[3];
  CHECK(a.name == "a");
  CHECK(a.shape == std::vector<std::size_t>{1});
  CHECK(e.name == "e");
  CHECK(e.bytes == 0);
  CHECK(b.name == "b");
  CHECK(b.dtype == "F16");
  CHECK(b.shape == std::vector<std::size_t>{2, 1});
  CHECK(b.bytes == 4);
  CHECK(s.shape.empty());
  CHECK(s.bytes == 1);

  std::array<std::byte, 4> bytes = {};
  CHECK(file->read(b, 0, bytes));
  CHECK(std::memcmp(bytes.data(), "efgh", 4) == 0);
  CHECK(file->read(b, 3, std::span(bytes).first(1)));
  CHECK(bytes[0] == std::byte{'h'});
  CHECK(file->read(b, 4, {}));

  const auto past = file->read(b, 1, bytes);
  REQUIRE_FALSE(past);
  CHECK(past.error().message() == path + ": tensor b: has 4 bytes; 4 at offset 1 were asked for");
  CHECK_FALSE(file->read(b, UINT64_MAX, std::span(bytes).first(1)));
}

TEST_CASE("headers that the library takes") {
  const TempDir dir;
  const auto path = dir.path() + "/x.safetensors";
  const std::string one = R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]})";
  const auto file = GENERATE_COPY(values<std::string>({
      with_length(2, "{}"),
      safetensors_file("{}", ""),
      safetensors_file(one + "}   \n\t ", "1234"),
      safetensors_file(one + R"(, "__metadata__": null})", "1234"),
      safetensors_file(one + R"(, "__metadata__": {}})", "1234"),
      safetensors_file(one + R"(, "": {"dtype": "U8", "shape": [1], "data_offsets": [4, 5]}})", "12345"),
      safetensors_file(R"({"a": {"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}})", "1"),
      safetensors_file(R"({"a": {"dtype": "F6_E2M3", "shape": [4], "data_offsets": [0, 3]}})", "123"),
  }));
  write_file(path, file);
  const auto opened = open(path);
  INFO(file);
  CHECK(opened);
}

struct Lie {
  std::string file;
  std::string message;  // after the path
};

TEST_CASE("a length that lies") {
  const TempDir dir;
  const auto path = dir.path() + "/x.safetensors";
  const auto lie = GENERATE(values<Lie>({
      {"", ": 0 bytes; a safetensors file begins with 8 for its header's length"},
      {"1234567", ": 7 bytes; a safetensors file begins with 8 for its header's length"},
      {with_length(std::uint64_t{1} << 63U, "{}"), ": header length 9223372036854775808 is over 100000000"},
      {with_length(UINT64_MAX, "{}"), ": header length 18446744073709551615 is over 100000000"},
      {with_length(100'000'001, "{}"), ": header length 100000001 is over 100000000"},
      {with_length(3, "{}"), ": header length 3 is past the end of the file, 10 bytes"},
      {with_length(100'000'000, "{}"), ": header length 100000000 is past the end of the file, 10 bytes"},
      {with_length(0, "{}"), ": the header does not begin with {"},
      {with_length(3, " {}"), ": the header does not begin with {"},
      {with_length(2, "[]"), ": the header does not begin with {"},
  }));
  write_file(path, lie.file);
  const auto opened = open(path);
  REQUIRE_FALSE(opened);
  CHECK(opened.error().kind() == kime::ErrorKind::input);
  CHECK(opened.error().message() == path + lie.message);
}

TEST_CASE("a header that lies") {
  const TempDir dir;
  const auto path = dir.path() + "/x.safetensors";
  // Of trivial types, since a compiler with sanitizers takes minutes for long lists of others.
  struct HeaderLie {
    const char* header;
    std::size_t data;
    const char* message;
  };
  constexpr HeaderLie kLies[] = {
      // The cover of the data.
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]}})", 12,
       ": tensor b: begins at data offset 8; expected 4, where the tensor before it ends (there is a hole)"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [2, 6]}})", 6,
       ": tensor b: begins at data offset 2; expected 4, where the tensor before it ends (they overlap)"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})", 4,
       ": tensor b: begins at data offset 0; expected 4, where the tensor before it ends (they overlap)"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]}})", 12,
       ": tensor a: begins at data offset 4; expected 0, where the tensor before it ends (there is a hole)"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})", 7,
       ": tensor b: ends at data offset 8; the file has data up to 7"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})", 9,
       ": 1 bytes follow the last tensor"},
      {"{}", 1, ": 1 bytes follow the last tensor"},
      {R"({"a": {"dtype": "U8", "shape": [18446744073709551615], "data_offsets": [0, 18446744073709551615]}})", 4,
       ": tensor a: shape is [18446744073709551615]; expected a whole number of bytes of U8, under 2^64"},
      {R"({"a": {"dtype": "F32", "shape": [4611686018427387904], "data_offsets": [0, 0]}})", 0,
       ": tensor a: shape is [4611686018427387904]; expected a whole number of bytes of F32, under 2^64"},
      {R"({"a": {"dtype": "F32", "shape": [4294967296, 4294967296, 4], "data_offsets": [0, 0]}})", 0,
       ": tensor a: shape is [4294967296,4294967296,4]; expected a whole number of bytes of F32, under 2^64"},
      {R"({"a": {"dtype": "F32", "shape": [4294967296, 4294967296, 0], "data_offsets": [0, 0]}})", 0,
       ": tensor a: shape is [4294967296,4294967296,0]; expected a whole number of bytes of F32, under 2^64"},
      {R"({"a": {"dtype": "F4", "shape": [3], "data_offsets": [0, 1]}})", 1,
       ": tensor a: shape is [3]; expected a whole number of bytes of F4, under 2^64"},
      {R"({"a": {"dtype": "U8", "shape": [2305843009213693951], "data_offsets": [0, 2305843009213693951]}})", 4,
       ": tensor a: ends at data offset 2305843009213693951; the file has data up to 4"},
      // One entry.
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}})", 4,
       ": tensor a: data_offsets [0,4] are 4 bytes; shape [2] of F32 has 8"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}})", 4,
       ": tensor a: data_offsets is [4,0]; expected two non-negative integers, begin and end"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 4]}})", 4,
       ": tensor a: data_offsets is [0,4,4]; expected two non-negative integers, begin and end"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}})", 4,
       ": tensor a: data_offsets is [-4,0]; expected two non-negative integers, begin and end"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 18446744073709551616]}})", 4,
       ": tensor a: data_offsets is [0,1.8446744073709552e+19]; expected two non-negative integers, begin and end"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": 4}})", 4,
       ": tensor a: data_offsets is 4; expected two non-negative integers, begin and end"},
      {R"({"a": {"dtype": "F32", "shape": [1]}})", 4, ": tensor a: data_offsets is missing"},
      {R"({"a": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}})", 4,
       ": tensor a: shape is [1.0]; expected a list of non-negative integers"},
      {R"({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}})", 4,
       ": tensor a: shape is [-1]; expected a list of non-negative integers"},
      {R"({"a": {"dtype": "F32", "shape": [-0], "data_offsets": [0, 0]}})", 0,
       ": tensor a: shape is [0]; expected a list of non-negative integers"},
      {R"({"a": {"dtype": "F32", "shape": "1", "data_offsets": [0, 4]}})", 4,
       ": tensor a: shape is \"1\"; expected a list of non-negative integers"},
      {R"({"a": {"dtype": "F32", "data_offsets": [0, 4]}})", 4, ": tensor a: shape is missing"},
      {R"({"a": {"shape": [1], "data_offsets": [0, 4]}})", 4, ": tensor a: dtype is missing"},
      {R"({"a": {"dtype": "f32", "shape": [1], "data_offsets": [0, 4]}})", 4,
       ": tensor a: dtype is \"f32\"; expected a dtype of the safetensors format"},
      {R"({"a": {"dtype": 5, "shape": [1], "data_offsets": [0, 4]}})", 4,
       ": tensor a: dtype is 5; expected a dtype of the safetensors format"},
      {R"({"a": [1]})", 0, ": tensor a: [1]; expected an object"},
      {R"({"x\ny": 1})", 0, ": tensor \"x\\ny\": 1; expected an object"},
      // Metadata.
      {R"({"__metadata__": {"x": 1}})", 0, ": __metadata__ is {\"x\":1}; expected an object of strings"},
      {R"({"__metadata__": ["x"]})", 0, ": __metadata__ is [\"x\"]; expected an object of strings"},
      // JSON.
      {R"({"a": 1, "a": 2})", 0, ": a stands twice in one object"},
      {R"({"a": {"dtype": "F32", "dtype": "F32"}})", 0, ": dtype stands twice in one object"},
      {R"({"__metadata__": {"x": "y", "x": "z"}})", 0, ": x stands twice in one object"},
  };
  for (const auto& lie : kLies) {
    write_file(path, safetensors_file(lie.header, std::string(lie.data, 'x')));
    const auto opened = open(path);
    INFO(lie.header);
    REQUIRE_FALSE(opened);
    CHECK(opened.error().kind() == kime::ErrorKind::input);
    CHECK(opened.error().message() == path + lie.message);
  }
}

TEST_CASE("a header that is no JSON") {
  const TempDir dir;
  const auto path = dir.path() + "/x.safetensors";
  const auto header = GENERATE(values<std::string>(
      {"{", "{}x", "{,}", R"({"a")", R"({"a": 1,})", "{\"\xff\": 1}", R"({"\ud800": 1})", R"({"a": NaN})", R"({"a": 1e999})", "{} // no"}));
  write_file(path, safetensors_file(header, ""));
  const auto opened = open(path);
  INFO(header);
  REQUIRE_FALSE(opened);
  CHECK_THAT(opened.error().message(), Catch::StartsWith(path + ": line 1, column "));
}

TEST_CASE("a header with a NUL byte, and one nested deep") {
  const TempDir dir;
  const auto path = dir.path() + "/x.safetensors";
  write_file(path, safetensors_file(std::string("{}\0", 3), ""));
  CHECK(open(path).error().message() == path + ": line 1, column 3: a NUL byte is not JSON");
  write_file(path, safetensors_file("{\"a\": " + std::string(1000, '['), ""));
  CHECK(open(path).error().message() == path + ": nested over 128 levels");
}

TEST_CASE("a file that is none, or that becomes shorter") {
  const TempDir dir;
  const auto path = dir.path() + "/x.safetensors";
  CHECK(open(path).error().message() == path + ": No such file or directory");
  CHECK(open(dir.path()).error().message() == dir.path() + ": a directory; expected a file");
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  CHECK(open(path).error().message() == path + ": no regular file; expected a file");  // and does not wait for a writer
  std::filesystem::remove(path);

  const std::vector<TestTensor> tensors = {{.name = "a", .shape = {4}, .values = {1, 2, 3, 4}},
                                           {.name = "b", .shape = {2}, .values = {5, 6}}};
  write_file(path, safetensors_file(tensors, "F32"));
  const auto file = open(path);
  REQUIRE(file);
  const auto size = static_cast<off_t>(file->file().size());
  REQUIRE(truncate(path.c_str(), size - 4) == 0);
  std::array<std::byte, 8> bytes = {};
  CHECK(file->read(file->entries()[0], 8, bytes));
  const auto cut = file->read(file->entries()[1], 0, bytes);
  REQUIRE_FALSE(cut);
  CHECK(cut.error().kind() == kime::ErrorKind::input);
  CHECK(cut.error().message() == path + ": ends at byte " + std::to_string(size - 4) + ", 4 bytes early; it has become shorter (tensor b)");
}

TEST_CASE("a file goes on being what it was when its name comes to mean another") {
  const TempDir dir;
  const auto path = dir.path() + "/x.safetensors";
  write_file(path, safetensors_file(std::vector<TestTensor>{{.name = "a", .shape = {1}, .values = {1}}}, "F32"));
  const auto file = open(path);
  REQUIRE(file);
  std::filesystem::remove(path);
  write_file(path, safetensors_file(std::vector<TestTensor>{{.name = "a", .shape = {1}, .values = {2}}}, "F32"));
  float value = 0;
  CHECK(file->read(file->entries()[0], 0, std::as_writable_bytes(std::span(&value, 1))));
  CHECK(value == 1.0F);
}

TEST_CASE("many threads read at once") {
  const TempDir dir;
  const auto path = dir.path() + "/x.safetensors";
  TestTensor tensor{.name = "a", .shape = {4096}, .values = {}};
  for (int i = 0; i < 4096; ++i) {
    tensor.values.push_back(static_cast<float>(i % 128));
  }
  write_file(path, safetensors_file(std::vector<TestTensor>{tensor}, "F32"));
  const auto file = open(path);
  REQUIRE(file);
  std::vector<float> values(4096);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t * 512; i < (t + 1) * 512; i += 8) {
        const auto status = file->read(file->entries()[0], i * 4, std::as_writable_bytes(std::span(values).subspan(i, 8)));
        if (!status) {
          values[i] = -1;
        }
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  CHECK(values == tensor.values);
}

// Whatever a header says, opening ends with an error or with entries whose bytes are all within the file and can be read.
TEST_CASE("mutated files never lead out of the file") {
  constexpr unsigned kSeed = 77;
  INFO("seed " << kSeed);
  std::mt19937 random(kSeed);
  const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  const TempDir dir;
  const auto path = dir.path() + "/x.safetensors";
  const std::vector<TestTensor> tensors = {{.name = "a", .shape = {2, 2}, .values = {1, 2, 3, 4}},
                                           {.name = "b.weight", .shape = {3}, .values = {5, 6, 7}},
                                           {.name = "c", .shape = {}, .values = {8}}};
  const std::string original = safetensors_file(tensors, "F16");
  std::string alphabet = "0123456789\"[]{},:-+.eE\\u \n\xff\x80";
  alphabet += '\0';
  std::size_t opened_count = 0;
  std::size_t refused_count = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string file = original;
    const auto edits = 1 + below(2);
    for (std::size_t i = 0; i < edits; ++i) {
      const auto at = below(4) == 0 ? below(8) : below(file.size());
      switch (below(4)) {
        case 0:
          file[at] = static_cast<char>(random());
          break;
        case 1:
          file[at] = alphabet[below(alphabet.size())];
          break;
        case 2:
          file.erase(at, 1 + below(4));
          break;
        default:
          file.insert(at, 1, alphabet[below(alphabet.size())]);
      }
      if (file.empty()) {
        break;
      }
    }
    write_file(path, file);
    const auto opened = open(path);
    if (!opened) {
      ++refused_count;
      CHECK(opened.error().message().starts_with(path + ": "));
      continue;
    }
    ++opened_count;
    std::uint64_t total = 0;
    for (const auto& entry : opened->entries()) {
      REQUIRE(entry.begin + entry.bytes <= file.size());
      total += entry.bytes;
      std::vector<std::byte> bytes(static_cast<std::size_t>(entry.bytes));
      CHECK(opened->read(entry, 0, bytes));
    }
    CHECK(total <= file.size());
  }
  CHECK(opened_count > 100);
  CHECK(refused_count > 1000);
}

}  // namespace
