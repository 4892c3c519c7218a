// Principal components: those of the covariance matrix, their signs, shapes without data, and numbers at the
// ends of double.

#include <Eigen/Core>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "catch.hpp"
#include "heed/inspect/pca.hpp"

namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

// Numbers without pattern, the same everywhere.
MatrixXd scattered(Eigen::Index rows, Eigen::Index cols) {
  MatrixXd values(rows, cols);
  for (Eigen::Index i = 0; i < rows; ++i) {
    for (Eigen::Index j = 0; j < cols; ++j) {
      values(i, j) = std::sin(12.9898 * static_cast<double>(i + 1) + 78.233 * static_cast<double>(j + 1) +
                              static_cast<double>((i + 1) * (i + 3) * (j + 2)));
    }
  }
  return values;
}

// The covariance matrix by its definition, one sum after another.
MatrixXd covariance(const MatrixXd& rows) {
  const Eigen::Index n = rows.rows();
  const Eigen::Index d = rows.cols();
  MatrixXd result(d, d);
  for (Eigen::Index a = 0; a < d; ++a) {
    for (Eigen::Index b = 0; b < d; ++b) {
      long double mean_a = 0;
      long double mean_b = 0;
      for (Eigen::Index i = 0; i < n; ++i) {
        mean_a += rows(i, a);
        mean_b += rows(i, b);
      }
      mean_a /= static_cast<long double>(n);
      mean_b /= static_cast<long double>(n);
      long double sum = 0;
      for (Eigen::Index i = 0; i < n; ++i) sum += (rows(i, a) - mean_a) * (rows(i, b) - mean_b);
      result(a, b) = static_cast<double>(sum / static_cast<long double>(n - 1));
    }
  }
  return result;
}

std::string message_of(const MatrixXd& rows, heed::Index components) {
  try {
    heed::pca(rows, components);
  } catch (const heed::ArgumentError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("points on a line have that line as their one component", "[pca]") {
  MatrixXd points(4, 2);
  points << 0, 1, 3, 5, 6, 9, 9, 13;  // along (3, 4) / 5
  const auto result = heed::pca(points, 1);
  CHECK(std::abs(result.components(0, 0) - 0.6) < 1e-14);
  CHECK(std::abs(result.components(0, 1) - 0.8) < 1e-14);
  CHECK(std::abs(result.mean(0) - 4.5) < 1e-14);
  CHECK(std::abs(result.mean(1) - 7) < 1e-14);
  CHECK(std::abs(result.projected(0, 0) + 7.5) < 1e-13);
  CHECK(std::abs(result.projected(3, 0) - 7.5) < 1e-13);
  // coordinates -7.5, -2.5, 2.5, 7.5: squares 125, over n - 1
  CHECK(std::abs(result.explained_variance(0) - 125.0 / 3) < 1e-12);
  CHECK(std::abs(result.total_variance - 125.0 / 3) < 1e-12);
}

TEST_CASE("components are the eigenvectors of the covariance matrix, tall data or wide", "[pca]") {
  const auto [n, d] = GENERATE(std::pair{40, 6}, std::pair{6, 6}, std::pair{7, 6}, std::pair{5, 12},
                               std::pair{2, 9}, std::pair{300, 3}, std::pair{30, 30});
  const MatrixXd points = scattered(n, d).array() + 3;
  const Eigen::Index rank = std::min<Eigen::Index>(n - 1, d);
  const auto result = heed::pca(points, rank);
  const MatrixXd by_definition = covariance(points);
  for (Eigen::Index i = 0; i < rank; ++i) {
    const VectorXd axis = result.components.row(i).transpose();
    CHECK((by_definition * axis - result.explained_variance(i) * axis).cwiseAbs().maxCoeff() < 1e-13);
    if (i > 0) CHECK(result.explained_variance(i) <= result.explained_variance(i - 1));
  }
  CHECK((result.components * result.components.transpose() - MatrixXd::Identity(rank, rank))
            .cwiseAbs()
            .maxCoeff() < 1e-13);
  CHECK(std::abs(result.total_variance - by_definition.trace()) < 1e-12);
  // with all components nothing is lost
  const MatrixXd back = (result.projected * result.components).rowwise() + result.mean.transpose();
  CHECK((back - points).cwiseAbs().maxCoeff() < 1e-13);
}

TEST_CASE("the largest coefficient of each component is positive, whatever the signs of the data", "[pca]") {
  const MatrixXd points = scattered(25, 7);
  const auto result = heed::pca(points, 7);
  const auto mirrored = heed::pca(-points, 7);
  for (Eigen::Index i = 0; i < 7; ++i) {
    Eigen::Index place = 0;
    result.components.row(i).cwiseAbs().maxCoeff(&place);
    CHECK(result.components(i, place) > 0);
  }
  CHECK((result.components - mirrored.components).cwiseAbs().maxCoeff() < 1e-12);
  CHECK((result.projected + mirrored.projected).cwiseAbs().maxCoeff() < 1e-12);
}

TEST_CASE("among coefficients equal but for rounding the first one decides the sign", "[pca]") {
  // the second coefficient is larger than the first by less than rounding is allowed, and of the other sign
  for (const double nudge : {0.0, 0x1p-48, -0x1p-48}) {
    const Eigen::RowVector3d direction(1, -(1 + nudge), 1);
    MatrixXd points(3, 3);
    points << -direction, 0 * direction, direction;
    CHECK(heed::pca(points, 1).components(0, 0) > 0.5);
    CHECK(heed::pca(-points, 1).components(0, 0) > 0.5);
  }
}

TEST_CASE("the storage order and stride of the points change no bit of the result", "[pca]") {
  const MatrixXd points = scattered(20, 5);
  const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> by_rows = points;
  MatrixXd framed = MatrixXd::Constant(24, 9, 77);
  framed.block(2, 3, 20, 5) = points;
  const auto plain = heed::pca(points, 3);
  const auto same = [&](const heed::PcaResult<double>& other) {
    return std::memcmp(plain.projected.data(), other.projected.data(), 20 * 3 * sizeof(double)) == 0 &&
           std::memcmp(plain.components.data(), other.components.data(), 3 * 5 * sizeof(double)) == 0;
  };
  CHECK(same(heed::pca(by_rows, 3)));
  CHECK(same(heed::pca(framed.block(2, 3, 20, 5), 3)));
  CHECK(same(heed::pca(2 * points - points, 3)));
}

TEST_CASE("no rows, no columns, one row and one column all have a result of the right shape", "[pca]") {
  const auto [n, d, k] = GENERATE(table<int, int, int>(
      {{0, 0, 2}, {0, 3, 2}, {3, 0, 2}, {1, 3, 2}, {3, 1, 2}, {1, 1, 1}, {5, 2, 0}, {2, 2, 9}, {0, 0, 0}}));
  const MatrixXd points = scattered(n, d);
  const auto result = heed::pca(points, k);
  REQUIRE(result.projected.rows() == n);
  REQUIRE(result.projected.cols() == k);
  REQUIRE(result.components.rows() == k);
  REQUIRE(result.components.cols() == d);
  REQUIRE(result.explained_variance.size() == k);
  REQUIRE(result.mean.size() == d);
  CHECK(result.projected.allFinite());
  CHECK(result.components.allFinite());
  if (n == 1) CHECK((result.mean.transpose() - points).cwiseAbs().maxCoeff() < 1e-15);
  if (n < 2) CHECK(result.total_variance == 0);
}

TEST_CASE("components beyond the rank of the data are zero, with their variance and coordinates", "[pca]") {
  MatrixXd points(5, 3);  // rank 1
  for (int i = 0; i < 5; ++i) points.row(i) << 0.1 * i + 7, 0.2 * i - 1, -0.3 * i + 0.7;
  const auto result = heed::pca(points, 5);
  CHECK(std::abs(result.components.row(0).norm() - 1) < 1e-14);
  CHECK(result.components.bottomRows(4).isZero(0));
  CHECK(result.explained_variance.tail(4).isZero(0));
  CHECK(result.projected.rightCols(4).isZero(0));
}

TEST_CASE("constant data has no component and no variance", "[pca]") {
  for (const double value : {0.0, 0.1, -1e300, 5e-324, 1.0 / 3}) {
    const auto result = heed::pca(MatrixXd::Constant(7, 3, value), 2);
    CHECK(result.components.isZero(0));
    CHECK(result.projected.isZero(0));
    CHECK(result.total_variance == 0);
    CHECK(std::abs(result.mean(2) - value) <= 1e-15 * std::abs(value));
  }
}

TEST_CASE("values near the ends of double's range neither overflow nor vanish", "[pca]") {
  const MatrixXd points = scattered(12, 4);
  const auto plain = heed::pca(points, 2);
  for (const double factor : {0x1p1000, 0x1p-900, 0x1p1023}) {
    const auto scaled = heed::pca(points * factor, 2);
    CHECK((scaled.components - plain.components).cwiseAbs().maxCoeff() < 1e-14);
    CHECK((scaled.projected / factor - plain.projected).cwiseAbs().maxCoeff() < 1e-14);
  }
}

TEST_CASE("a column whose squares vanish beside the others leaves their components as they are", "[pca]") {
  const auto [n, d] = GENERATE(std::pair{90, 4}, std::pair{4, 90}, std::pair{9, 9});
  const MatrixXd points = scattered(n, d);
  for (const double factor : {1e-150, 1e-161, 3e-162, 1e-200}) {
    MatrixXd with_tiny(n, d + 1);
    with_tiny << scattered(n, 1) * factor, points;
    const auto plain = heed::pca(points, 3);
    const auto result = heed::pca(with_tiny, 3);
    CHECK((result.components.rightCols(d) - plain.components).cwiseAbs().maxCoeff() < 1e-13);
    CHECK(result.components.col(0).cwiseAbs().maxCoeff() < 1e-13);
  }
}

TEST_CASE("float data is computed in double: an offset of a million keeps its digits", "[pca]") {
  Eigen::MatrixXf points(4, 2);
  points << 1e6F, 0, 1e6F + 1, 0, 1e6F + 2, 0, 1e6F + 3, 0;
  const auto result = heed::pca(points, 1);
  CHECK(result.components(0, 0) == 1.0F);
  CHECK(result.projected(3, 0) == 1.5F);
  CHECK(std::abs(result.explained_variance(0) - 5.0F / 3) < 1e-6F);
}

TEST_CASE("a value that is not finite is an error that names its place", "[pca]") {
  MatrixXd points = scattered(6, 4);
  points(3, 2) = std::numeric_limits<double>::quiet_NaN();
  CHECK(message_of(points, 2) == "rows(3, 2) is nan, all values must be finite");
  points(3, 2) = -std::numeric_limits<double>::infinity();
  CHECK(message_of(points, 2) == "rows(3, 2) is -inf, all values must be finite");
  points(3, 2) = 0;
  CHECK(message_of(points, 2) == "no error");
  CHECK(message_of(points, -1) == "components is -1, it must not be negative");
}

TEST_CASE("long double, which has a decomposition of its own, agrees with double", "[pca]") {
  const auto [n, d] = GENERATE(std::pair{40, 6}, std::pair{5, 12});
  const MatrixXd points = scattered(n, d);
  const auto narrow = heed::pca(points, 3);
  const auto wide = heed::pca(points.cast<long double>(), 3);
  CHECK((wide.components.cast<double>() - narrow.components).cwiseAbs().maxCoeff() < 1e-12);
  CHECK((wide.projected.cast<double>() - narrow.projected).cwiseAbs().maxCoeff() < 1e-12);
}
