// The driver's errors, in its own words.
#pragma once

#include <string>
#include <string_view>

#include "kime/backend/cuda/api.h"
#include "kime/base/error.h"

namespace kime::cuda {

/// "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected".
[[nodiscard]] std::string words(const DriverApi& api, Code code);

/// Of kind `device`: "cuMemAlloc: CUDA_ERROR_...: ...".
[[nodiscard]] Error error_of(const DriverApi& api, std::string_view function, Code code);

/// Whether nothing will work again in the context where this came up.
[[nodiscard]] constexpr bool is_sticky(Code code) {
  switch (code) {
    case Code::deinitialized:
    case Code::ecc_uncorrectable:
    case Code::nvlink_uncorrectable:
    case Code::illegal_address:
    case Code::launch_timeout:
    case Code::context_is_destroyed:
    case Code::assert:
    case Code::hardware_stack_error:
    case Code::illegal_instruction:
    case Code::misaligned_address:
    case Code::invalid_address_space:
    case Code::invalid_pc:
    case Code::launch_failed:
    case Code::unknown:
      return true;
    default:
      return false;
  }
}

/// "12.4" of 12040.
[[nodiscard]] std::string version_text(int version);

}  // namespace kime::cuda
