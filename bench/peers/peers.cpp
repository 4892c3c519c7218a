#include <algorithm>

#include "peer.hpp"

namespace heed::bench {

// Each is defined where its library is.
Peer torch_peer();
Peer onnxruntime_peer();
Peer onednn_peer();
Peer ggml_peer();
Peer openblas_peer();

std::vector<Peer> peers() {
  std::vector<Peer> all;
#if defined(HEED_BENCH_TORCH)
  all.push_back(torch_peer());
#endif
#if defined(HEED_BENCH_ONNXRUNTIME)
  all.push_back(onnxruntime_peer());
#endif
#if defined(HEED_BENCH_ONEDNN)
  all.push_back(onednn_peer());
#endif
#if defined(HEED_BENCH_GGML)
  all.push_back(ggml_peer());
#endif
#if defined(HEED_BENCH_OPENBLAS)
  all.push_back(openblas_peer());
#endif
  return all;
}

std::vector<float> swap_middle(const float* from, long batch, long heads, long length, long dim) {
  std::vector<float> to(static_cast<std::size_t>(batch * heads * length * dim));
  for (long b = 0; b < batch; ++b) {
    for (long h = 0; h < heads; ++h) {
      for (long i = 0; i < length; ++i) {
        std::copy_n(from + ((b * heads + h) * length + i) * dim, dim,
                    to.begin() + ((b * length + i) * heads + h) * dim);
      }
    }
  }
  return to;
}

}  // namespace heed::bench
