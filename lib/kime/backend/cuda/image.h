// The kernels' machine code, which the binary carries.
#pragma once

#include <span>

namespace kime::cuda {

/// The kernels, compiled: fat binaries, each of which cuModuleLoadData takes. A kernel is in one of them. Empty where kime was built
/// without CUDA.
std::span<const void* const> kernel_images();

}  // namespace kime::cuda
