// The table of attention's tiles: how long sequences are is known on the device only.
#include "kernels/cuda/device.h"
#include "kernels/cuda/params_attention.h"

namespace kime::cuda {
namespace {

__device__ __forceinline__ unsigned tiles_of(const AttentionTilesParams& p, unsigned seq) {
  const std::uint32_t* const ends = p.mcu == nullptr ? p.cu : p.mcu;
  const unsigned queries = load_global(ends + seq + 1) - load_global(ends + seq) + (p.mcu == nullptr ? 0 : 1);
  return (queries + p.queries_each - 1) / p.queries_each;
}

}  // namespace
}  // namespace kime::cuda

KIME_KERNEL(kime_attention_tiles, kime::cuda::AttentionTilesParams, kime::cuda::kTileThreads) {
  using namespace kime::cuda;
  KIME_SHARED_ARRAY(std::uint32_t, sums, kTileThreads);
  const unsigned seqs = load_global(&p.counts->seqs);
  unsigned before = 0;  // tiles of the sequences before these
  for (unsigned seq0 = 0; seq0 < seqs; seq0 += kTileThreads) {
    const unsigned seq = seq0 + threadIdx.x;
    const unsigned tiles = seq < seqs ? tiles_of(p, seq) : 0;
    sums[threadIdx.x] = tiles;
    __syncthreads();
    for (unsigned step = 1; step < kTileThreads; step *= 2) {
      const unsigned further = threadIdx.x >= step ? sums[threadIdx.x - step] : 0U;
      __syncthreads();
      sums[threadIdx.x] = sums[threadIdx.x] + further;
      __syncthreads();
    }
    const unsigned first = before + sums[threadIdx.x] - tiles;
    for (unsigned i = 0; i < tiles; ++i) {
      store_global(&p.tiles[first + i].seq, seq);
      store_global(&p.tiles[first + i].query0, i * p.queries_each);
    }
    before += sums[kTileThreads - 1];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    store_global(p.tile_count, before);
  }
}
