#include "kime/backend/cuda/image.h"

// KIME_CUDA_IMAGES is a file that the build writes: KIME_IMAGE(name, "file") for each image.
#if defined(KIME_CUDA_IMAGES)

#include <array>

#define KIME_IMAGE(name, file) ".balign 64\nkime_cuda_image_" #name ":\n.incbin \"" file "\"\n"
asm(".pushsection .rodata.kime_cuda_images, \"a\"\n"
#include KIME_CUDA_IMAGES
    ".popsection\n");
#undef KIME_IMAGE

#define KIME_IMAGE(name, file) extern "C" [[gnu::visibility("hidden")]] const unsigned char kime_cuda_image_##name;
#include KIME_CUDA_IMAGES
#undef KIME_IMAGE

#define KIME_IMAGE(name, file) &kime_cuda_image_##name,

namespace kime::cuda {

std::span<const void* const> kernel_images() {
  static constexpr auto kImages = std::to_array<const void*>({
#include KIME_CUDA_IMAGES
  });
  return kImages;
}

}  // namespace kime::cuda

#else

namespace kime::cuda {

std::span<const void* const> kernel_images() {
  return {};
}

}  // namespace kime::cuda

#endif
