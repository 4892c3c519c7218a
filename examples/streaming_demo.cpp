// streaming_demo: attention inside an audio callback. Sound comes in blocks, each must be done in time, and
// asking the system for memory may take as long as it likes: so everything is planned and reserved first, and
// from the first block on nothing is allocated. A sliding window on a ring cache makes it go on for ever in
// the same memory.

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <new>

#include "heed/layers/multi_head_attention.hpp"

namespace {

// Counts what the program asks for, by operator new and (with glibc) by malloc, which Eigen calls.
long allocations = 0;

void* counted(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) {
  return counted(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

#if defined(__GLIBC__)
extern "C" {
void* __libc_malloc(std::size_t bytes) noexcept;  // NOLINT(bugprone-reserved-identifier): glibc's own
void* malloc(std::size_t size) noexcept {
  ++allocations;
  return __libc_malloc(size);
}
}
#endif

namespace {

using heed::Index;
using heed::Matrix;

constexpr Index kFrameSize = 32;    // numbers that describe a frame of sound
constexpr Index kBlockFrames = 16;  // frames that the sound card hands over at once
constexpr Index kBlocks = 64;
constexpr Index kWindow = 47;    // frames before its own that a frame looks at
constexpr Index kCapacity = 64;  // at least kWindow + kBlockFrames

heed::LayerOptions options() {
  heed::LayerOptions options;
  options.mask = heed::window(kWindow, 0);
  options.score.rotary = heed::Rotary(kFrameSize / 4, kBlocks * kBlockFrames);
  return options;
}

/// What the sound card calls, with all the memory that it will ever need.
class Callback {
 public:
  explicit Callback(const heed::MultiHeadAttention<float>& layer)
      : layer_(layer),
        cache_(layer.make_cache(kCapacity, 1, heed::KvStorage::same, true)),
        plan_(layer.decode_plan(cache_.shape(), kBlockFrames, options())),
        workspace_(plan_.workspace_bytes()) {}

  /// One block: kBlockFrames x kFrameSize numbers in, as many out.
  void process(const float* in, float* out) {
    const Eigen::Map<const Matrix<float>> frames(in, kBlockFrames, kFrameSize);
    Eigen::Map<Matrix<float>> result(out, kBlockFrames, kFrameSize);
    layer_.decode_into(frames, cache_, result, plan_, workspace_.data());
  }

  std::size_t cache_bytes() const { return cache_.bytes(); }
  std::size_t scratch_bytes() const { return workspace_.size(); }

 private:
  const heed::MultiHeadAttention<float>& layer_;
  heed::KvCache<float> cache_;
  heed::MultiHeadAttentionDecodePlan<float> plan_;
  heed::Workspace workspace_;
};

/// A sum of two tones, as it might come out of a filter bank.
Matrix<float> sound(Index frames) {
  Matrix<float> x(frames, kFrameSize);
  for (Index t = 0; t < frames; ++t) {
    for (Index i = 0; i < kFrameSize; ++i) {
      const auto phase = static_cast<float>(t * (i + 1));
      x(t, i) = std::sin(0.05F * phase) + 0.5F * std::sin(0.031F * phase);
    }
  }
  return x;
}

int run() {
  heed::Random random(7);
  const heed::MultiHeadAttention<float> layer(kFrameSize, 4, random);
  const Matrix<float> in = sound(kBlocks * kBlockFrames);
  Matrix<float> out(in.rows(), in.cols());
  Callback callback(layer);
  std::cout << kBlocks << " blocks of " << kBlockFrames << " frames through a layer of 4 heads;\n"
            << "each frame looks at the " << kWindow << " before it\n"
            << "ring cache of " << kCapacity << " frames: " << callback.cache_bytes() << " bytes\n"
            << "scratch memory: " << callback.scratch_bytes() << " bytes\n";

  const long before = allocations;
  for (Index block = 0; block < kBlocks; ++block) {
    const Index at = block * kBlockFrames * kFrameSize;
    callback.process(in.data() + at, out.data() + at);
  }
  const long made = allocations - before;
  std::cout << "blocks 1 to " << kBlocks << ": " << made << " allocations\n";

  const bool same = out == layer.forward(in, options());
  std::cout << "the same bits as one pass over all " << in.rows() << " frames: " << (same ? "yes" : "no")
            << "\n"
            << "(that pass: " << allocations - before - made << " allocations)\n";
  return made == 0 && same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    std::cerr << argv[0] << " takes no arguments\n";
    return 2;
  }
  try {
    return run();
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
