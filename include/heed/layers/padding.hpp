#pragma once

// Padding: rows of a batch that stand for nothing, because a sequence is shorter than its place.
//
//   heed::clear_padding(grad_out, lengths);  // a row for each token, lengths.size() sequences of equal room
//
// One rule tells every layer which rows count on the way back: a row whose gradient is 0 throughout is one
// that nothing depends on. It adds nothing to any gradient, whatever the inputs hold there, NaN and
// uninitialized memory included. cross_entropy() leaves such rows where a target is ignored; clear_padding()
// makes them where the gradient comes from elsewhere.

#include "heed/core/config.hpp"

#include <span>
#include <string>

#include "heed/core/eigen.hpp"
#include "heed/core/error.hpp"
#include "heed/core/scalar.hpp"

namespace heed {

/// Sets the rows of padding to 0. matrix has equally many rows for each sequence, one sequence after another;
/// of sequence b the first lengths[b] rows are kept. Throws ShapeError, before anything is written, if the
/// rows cannot be shared out among the sequences, ArgumentError if a length is negative or more than there
/// are rows.
template <class X>
void clear_padding(Eigen::DenseBase<X>& matrix, std::span<const Index> lengths) {
  static_assert(detail::require_number<typename X::Scalar>());
  const Index batch_size = static_cast<Index>(lengths.size());
  if (batch_size == 0 ? matrix.rows() != 0 : matrix.rows() % batch_size != 0) {
    throw_shape_error("matrix has " + std::to_string(matrix.rows()) + " rows, which " +
                      std::to_string(batch_size) + " lengths cannot share equally");
  }
  const Index seq_len = batch_size == 0 ? 0 : matrix.rows() / batch_size;
  for (Index b = 0; b < batch_size; ++b) {
    const Index length = lengths[static_cast<std::size_t>(b)];
    if (length >= 0 && length <= seq_len) continue;
    throw_argument_error("lengths[" + std::to_string(b) + "] is " + std::to_string(length) +
                         ", it must be at least 0 and at most " + std::to_string(seq_len) +
                         ", the rows of each sequence");
  }
  for (Index b = 0; b < batch_size; ++b) {
    const Index length = lengths[static_cast<std::size_t>(b)];
    matrix.derived().middleRows(b * seq_len + length, seq_len - length).setZero();
  }
}

}  // namespace heed
