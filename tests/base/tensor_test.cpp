#include "kime/base/tensor.h"

#include <array>
#include <catch2/catch.hpp>
#include <limits>
#include <vector>

using kime::DType;
using kime::HostTensor;
using kime::HostTensors;

TEST_CASE("element types have the sizes and names of safetensors") {
  CHECK(kime::size_of(DType::f32) == 4);
  CHECK(kime::size_of(DType::f16) == 2);
  CHECK(kime::size_of(DType::bf16) == 2);
  CHECK(kime::to_string(DType::f32) == "F32");
  CHECK(kime::to_string(DType::f16) == "F16");
  CHECK(kime::to_string(DType::bf16) == "BF16");
}

TEST_CASE("tensors in memory are read in pieces, and never past their end") {
  const std::array<std::size_t, 2> shape = {2, 3};
  std::vector<std::byte> bytes(12);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i);
  }
  const std::vector<HostTensor> tensors = {{DType::f32, {}, {}}, {DType::f16, shape, bytes}};
  const HostTensors source(tensors);
  CHECK(source.size() == 2);
  CHECK(source.dtype(1) == DType::f16);
  CHECK(source.shape(1).size() == 2);

  std::array<std::byte, 4> out{};
  REQUIRE(source.read(1, 8, out));
  CHECK(out[0] == std::byte{8});
  CHECK(out[3] == std::byte{11});
  CHECK(source.read(1, 12, std::span<std::byte>()));
  CHECK(source.read(0, 0, std::span<std::byte>()));

  const auto past = source.read(1, 9, out);
  REQUIRE_FALSE(past);
  CHECK(past.error().text() == "tensor 1 has 12 bytes; 4 at offset 9 were asked for");
  CHECK_FALSE(source.read(1, 13, std::span<std::byte>()));
  CHECK_FALSE(source.read(1, std::numeric_limits<std::uint64_t>::max(), out));
}
