#include "kime/base/tensor.h"

#include <fmt/format.h>

#include <cstring>

namespace kime {

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "BF16";
    case DType::f32:
      break;
  }
  return "F32";
}

Status HostTensors::read(std::size_t index, std::uint64_t offset, std::span<std::byte> out) const {
  const auto bytes = tensors_[index].bytes;
  if (offset > bytes.size() || out.size() > bytes.size() - offset) {
    return Error(ErrorKind::input,
                 fmt::format("tensor {} has {} bytes; {} at offset {} were asked for", index, bytes.size(), out.size(), offset));
  }
  if (!out.empty()) {
    std::memcpy(out.data(), bytes.data() + offset, out.size());
  }
  return {};
}

}  // namespace kime
