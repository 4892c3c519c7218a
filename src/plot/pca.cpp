#include "heed/pca.hpp"

#include <Eigen/QR>
#include <Eigen/SVD>
#include <type_traits>

namespace heed::pca_detail {
namespace {

// The divide-and-conquer decomposition is the fast one and takes half a minute to compile: for double alone.
// Eigen 3.4 takes what to compute as an argument, later versions as part of the type.
template <class Matrix>
auto thin_svd(const Matrix& square) {
  constexpr bool fast = std::is_same_v<typename Matrix::Scalar, double>;
#if EIGEN_VERSION_AT_LEAST(3, 4, 90)
  constexpr int thin = Eigen::ComputeThinU | Eigen::ComputeThinV;
  using Fast = Eigen::BDCSVD<Matrix, thin>;
  using Small = Eigen::JacobiSVD<Matrix, thin | Eigen::NoQRPreconditioner>;
  return std::conditional_t<fast, Fast, Small>(square);
#else
  using Fast = Eigen::BDCSVD<Matrix>;
  using Small = Eigen::JacobiSVD<Matrix, Eigen::NoQRPreconditioner>;
  return std::conditional_t<fast, Fast, Small>(square, Eigen::ComputeFullU | Eigen::ComputeFullV);
#endif
}

template <class Scalar>
void directions(const Scalar* rows, Index n, Index d, Scalar* axes_out, Scalar* singular_values_out) {
  using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic>;
  const Eigen::Map<const Matrix> centred(rows, n, d);
  const Index r = n < d ? n : d;
  Eigen::Map<Matrix> axes(axes_out, d, r);
  Eigen::Map<Eigen::Matrix<Scalar, Eigen::Dynamic, 1>> singular_values(singular_values_out, r);

  // Tall rows = q * r: their right singular vectors are those of r. Wide rows are decomposed as their
  // transpose, q * r: their right singular vectors are q times the left ones of r.
  const bool tall = n >= d;
  const Eigen::HouseholderQR<Matrix> qr(tall ? Matrix(centred) : Matrix(centred.transpose()));
  const Matrix upper = qr.matrixQR().topRows(r).template triangularView<Eigen::Upper>();
  const auto svd = thin_svd(upper);
  singular_values = svd.singularValues();
  if (tall) {
    axes = svd.matrixV();
  } else {
    Matrix padded = Matrix::Zero(d, r);
    padded.topRows(r) = svd.matrixU();
    padded.applyOnTheLeft(qr.householderQ());
    axes = padded;
  }
}

}  // namespace

void principal_directions(const double* centred, Index n, Index d, double* axes, double* singular_values) {
  directions(centred, n, d, axes, singular_values);
}

void principal_directions(const long double* centred, Index n, Index d, long double* axes,
                          long double* singular_values) {
  directions(centred, n, d, axes, singular_values);
}

}  // namespace heed::pca_detail
