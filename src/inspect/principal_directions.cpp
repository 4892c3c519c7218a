// The singular value decomposition behind pca(): QR block by block, then one-sided Jacobi.

#include "heed/inspect/detail/principal_directions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

// Eigen's decompositions would do this too, but take a minute to compile and put the matrices that they need
// on the way into the program's symbols and onto the stack. Plain arrays here: all matrices lie by columns.

namespace heed::pca_detail {
namespace {

// The sum of x[i] y[i]. Eight sums side by side, in an order that does not depend on the processor.
template <class Scalar>
Scalar dot(const Scalar* x, const Scalar* y, Index n) {
  constexpr Index lanes = 8;
  Scalar sums[lanes] = {};
  Index i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (Index lane = 0; lane < lanes; ++lane) sums[lane] += x[i + lane] * y[i + lane];
  }
  for (; i < n; ++i) sums[0] += x[i] * y[i];
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

// Householder's QR decomposition of a tall matrix, some rows at a time (Demmel et al. 2012,
// "Communication-optimal parallel and sequential QR and LU factorizations"): a triangle that starts as zero
// takes up one block of rows after another. Reflection (block, j) is I - tau u u^T, where u is 1 in row j of
// the triangle and v in the rows of the block; v is left where the block's column j was. A block is small
// enough to stay in the cache.
template <class Scalar>
class BlockedQr {
 public:
  // value(i, j): the matrix, rows x cols.
  template <class Value>
  BlockedQr(Index rows, Index cols, Value value)
      : rows_(rows),
        cols_(cols),
        reflectors_(static_cast<std::size_t>(rows * cols)),
        taus_(static_cast<std::size_t>(num_blocks() * cols)),
        triangle_(static_cast<std::size_t>(cols * cols)) {
    for (Index block = 0; block < num_blocks(); ++block) {
      for (Index j = 0; j < cols; ++j) {
        Scalar* column = reflector(block, j);
        for (Index i = 0; i < height(block); ++i) column[i] = value(block * kBlockRows + i, j);
      }
      for (Index j = 0; j < cols; ++j) reflect(block, j);
    }
  }

  // Row i of the upper triangular factor, in cols values.
  const Scalar* triangle_row(Index i) const { return &triangle_[static_cast<std::size_t>(i * cols_)]; }

  // out (rows x cols) = q * square (cols x cols).
  void apply(std::vector<Scalar> square, Scalar* out) const {
    std::fill(out, out + rows_ * cols_, Scalar(0));
    for (Index block = num_blocks() - 1; block >= 0; --block) {
      for (Index j = cols_ - 1; j >= 0; --j) {
        for (Index c = 0; c < cols_; ++c) {
          update(block, j, square[static_cast<std::size_t>(c * cols_ + j)],
                 out + c * rows_ + block * kBlockRows);
        }
      }
    }
  }

 private:
  static constexpr Index kBlockRows = 64;

  Index num_blocks() const { return (rows_ + kBlockRows - 1) / kBlockRows; }
  Index height(Index block) const { return std::min(kBlockRows, rows_ - block * kBlockRows); }
  Scalar* reflector(Index block, Index j) {
    return reflectors_.data() + block * kBlockRows * cols_ + j * height(block);
  }
  const Scalar* reflector(Index block, Index j) const {
    return reflectors_.data() + block * kBlockRows * cols_ + j * height(block);
  }

  // Makes reflection (block, j), which takes the block's column j into the triangle's diagonal, and applies
  // it to the columns that follow.
  void reflect(Index block, Index j) {
    Scalar* v = reflector(block, j);
    const Index n = height(block);
    // A column so short that its squares vanish counts as zero: tau stays 0. The matrix's values are near 1.
    const Scalar shortest =
        std::sqrt(std::numeric_limits<Scalar>::min()) / std::numeric_limits<Scalar>::epsilon();
    const Scalar below = std::sqrt(dot(v, v, n));
    if (below < shortest) return;
    Scalar* row = &triangle_[static_cast<std::size_t>(j * cols_)];
    const Scalar length = std::copysign(std::hypot(row[j], below), -row[j]);
    const Scalar first = row[j] - length;
    for (Index i = 0; i < n; ++i) v[i] /= first;
    taus_[static_cast<std::size_t>(block * cols_ + j)] = -first / length;
    row[j] = length;
    for (Index c = j + 1; c < cols_; ++c) update(block, j, row[c], reflector(block, c));
  }

  // Applies reflection (block, j) to a column: its value `top` in row j of the triangle and its rows of the
  // block.
  void update(Index block, Index j, Scalar& top, Scalar* rows) const {
    const Scalar* v = reflector(block, j);
    const Index n = height(block);
    const Scalar weight = taus_[static_cast<std::size_t>(block * cols_ + j)] * (top + dot(v, rows, n));
    top -= weight;
    for (Index i = 0; i < n; ++i) rows[i] -= weight * v[i];
  }

  Index rows_;
  Index cols_;
  std::vector<Scalar> reflectors_;
  std::vector<Scalar> taus_;
  std::vector<Scalar> triangle_;
};

// One-sided Jacobi (Hestenes 1958; Demmel and Veselic 1992): turns pairs of columns of a square matrix until
// all are at right angles. They then are its left singular vectors, each as long as its singular value.
template <class Scalar>
void orthogonalize(std::vector<Scalar>& columns, Index n) {
  constexpr Scalar epsilon = std::numeric_limits<Scalar>::epsilon();
  constexpr int max_sweeps = 60;  // 6 to 10 are needed
  const Scalar right_angle = epsilon * std::sqrt(static_cast<Scalar>(n));
  const auto column = [&](Index j) { return columns.data() + j * n; };
  std::vector<Scalar> squares(static_cast<std::size_t>(n));
  const auto square = [&](Index j) -> Scalar& { return squares[static_cast<std::size_t>(j)]; };
  bool turned = true;
  for (int sweep = 0; turned && sweep < max_sweeps; ++sweep) {
    turned = false;
    for (Index j = 0; j < n; ++j) square(j) = dot(column(j), column(j), n);
    const Scalar noise = *std::max_element(squares.begin(), squares.end()) * (epsilon * epsilon);
    for (Index p = 0; p < n; ++p) {
      for (Index q = p + 1; q < n; ++q) {
        if (!(std::min(square(p), square(q)) > noise)) continue;
        Scalar* x = column(p);
        Scalar* y = column(q);
        const Scalar product = dot(x, y, n);
        if (!(std::abs(product) > right_angle * std::sqrt(square(p)) * std::sqrt(square(q)))) continue;
        turned = true;
        const Scalar zeta = (square(q) - square(p)) / (2 * product);
        const Scalar tangent = std::copysign(1 / (std::abs(zeta) + std::hypot(Scalar(1), zeta)), zeta);
        const Scalar cosine = 1 / std::hypot(Scalar(1), tangent);
        const Scalar sine = cosine * tangent;
        for (Index i = 0; i < n; ++i) {
          const Scalar old = x[i];
          x[i] = cosine * old - sine * y[i];
          y[i] = sine * old + cosine * y[i];
        }
        square(p) -= tangent * product;
        square(q) += tangent * product;
      }
    }
  }
}

// Scales the columns to length 1, puts their lengths into singular_values and sorts both, the longest first.
template <class Scalar>
std::vector<Scalar> sorted_directions(const std::vector<Scalar>& columns, Index n, Scalar* singular_values) {
  std::vector<std::pair<Scalar, Index>> order;
  for (Index j = 0; j < n; ++j) {
    order.emplace_back(std::sqrt(dot(columns.data() + j * n, columns.data() + j * n, n)), j);
  }
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Scalar> sorted(columns.size());
  for (Index j = 0; j < n; ++j) {
    const auto [length, from] = order[static_cast<std::size_t>(j)];
    singular_values[j] = length;
    if (length == 0) continue;
    for (Index i = 0; i < n; ++i) {
      sorted[static_cast<std::size_t>(j * n + i)] = columns[static_cast<std::size_t>(from * n + i)] / length;
    }
  }
  return sorted;
}

template <class Scalar>
void directions(const Scalar* rows, Index n, Index d, Scalar* axes, Scalar* singular_values) {
  // Tall rows = q * r: their right singular vectors are the left ones of r^T. Wide rows are decomposed as
  // their transpose, q * r: their right singular vectors are q times the left ones of r.
  const bool tall = n >= d;
  const Index r = std::min(n, d);
  const BlockedQr<Scalar> qr(std::max(n, d), r,
                             [&](Index i, Index j) { return tall ? rows[j * n + i] : rows[i * n + j]; });
  std::vector<Scalar> square(static_cast<std::size_t>(r * r));
  for (Index i = 0; i < r; ++i) {
    for (Index j = i; j < r; ++j) {
      square[static_cast<std::size_t>(tall ? i * r + j : j * r + i)] = qr.triangle_row(i)[j];
    }
  }
  orthogonalize(square, r);
  std::vector<Scalar> sorted = sorted_directions(square, r, singular_values);
  if (tall) {
    std::copy(sorted.begin(), sorted.end(), axes);
  } else {
    qr.apply(std::move(sorted), axes);
  }
}

}  // namespace

void principal_directions(const double* centered, Index n, Index d, double* axes, double* singular_values) {
  directions(centered, n, d, axes, singular_values);
}

void principal_directions(const long double* centered, Index n, Index d, long double* axes,
                          long double* singular_values) {
  directions(centered, n, d, axes, singular_values);
}

}  // namespace heed::pca_detail
