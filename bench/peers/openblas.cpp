// OpenBLAS: a matrix product, no attention.

#include <cblas.h>

#include <sstream>

#include "peer.hpp"

namespace heed::bench {

namespace {

class OpenBlasCall final : public Call {
 public:
  explicit OpenBlasCall(const ProductProblem& problem)
      : p_(problem), out_(static_cast<std::size_t>(problem.rows * problem.cols)) {
    openblas_set_num_threads(problem.threads);
  }

  void run() override {
    const auto rows = static_cast<blasint>(p_.rows);
    const auto depth = static_cast<blasint>(p_.depth);
    const auto cols = static_cast<blasint>(p_.cols);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, cols, depth, 1, p_.a, depth, p_.b, cols, 0,
                out_.data(), cols);
  }

  std::vector<float> result() const override { return out_; }

 private:
  ProductProblem p_;
  std::vector<float> out_;
};

std::vector<Way> product(const ProductProblem& p) {
  return {{"cblas_sgemm", [p] { return std::make_unique<OpenBlasCall>(p); }}};
}

// "OpenBLAS 0.3.30 DYNAMIC_ARCH ...": the second word.
std::string version() {
  std::istringstream words(openblas_get_config());
  std::string name;
  std::string number;
  words >> name >> number;
  return number;
}

}  // namespace

Peer openblas_peer() {
  return {"OpenBLAS", version(), nullptr, &product, nullptr};
}

}  // namespace heed::bench
