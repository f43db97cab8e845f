// The CUDA kernels' own sources as the kernels of a fake driver: launches run them over the shim, on the fake streams' threads.
#pragma once

#include "tests/cuda/fake/fake_cuda.h"

namespace kime::test {

/// Memory that kernels may touch is what the driver has given out, and not beyond.
[[nodiscard]] FakeCudaConfig with_shim(FakeCudaConfig config);

/// All of them. A fault of the shim's is told on standard error, and the launch fails as an illegal address does.
void add_shim_kernels(FakeCuda& fake);

}  // namespace kime::test
