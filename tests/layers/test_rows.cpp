// Functions on rows that are no layer: sums, rows picked from a table and added to it, exact and with the
// same bits in any place; sums over rows as one chain.

#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "heed/layers/reference.hpp"
#include "heed/layers/rows.hpp"
#include "helpers.hpp"
#include "layer_laws.hpp"

namespace {

using namespace heed;
using namespace heed::test;

}  // namespace

TEMPLATE_TEST_CASE("sums, and rows picked from a table and added to it, have the same bits in any place",
                   "[rows][threads][bits]", float, double) {
  using T = TestType;
  for_each_size([](Index rows, Index cols, std::uint64_t seed) {
    const Operand<T> a = rows_operand<T>(rows, cols, seed);
    const Operand<T> b = rows_operand<T>(rows, cols, seed + 1);
    const Operand<T> out = rows_operand<T>(rows, cols, seed + 2);
    const Operand<T> sums = shared_operand<T>(1, cols, seed + 3);
    const Operand<T> table = shared_operand<T>(4, cols, seed + 4);
    const auto size_of_result = [](const auto&, const auto&, const auto& exact) {
      return std::vector<Matrix<Exact>>{abs_of(exact[0])};
    };
    const double chain = 0.5 * static_cast<double>(rows);  // it rounds once for each row
    std::vector<std::int32_t> ids;
    for (Index i = 0; i < rows; ++i) ids.push_back(static_cast<std::int32_t>(i * 5 % 3 + i % 2));

    check_function<T>(
        "add", {rows, {a, b}, {out}, {{0, 0}, {0, 1}}, {0.5}},
        [](auto functions, const auto& in, const auto& to, Index, Executor* executor) {
          functions.add(in[0], in[1], to[0], executor);
          return kNoNumbers;
        },
        size_of_result);
    check_function<T>(
        "column_sums", {rows, {a}, {sums}, {}, {chain}},
        [](auto functions, const auto& in, const auto& to, Index, Executor*) {
          functions.column_sums(in[0], to[0]);
          return kNoNumbers;
        },
        [](const auto& in, const auto& before, const auto&) {
          return std::vector<Matrix<Exact>>{abs_of(before[0]) + abs_of(in[0]).colwise().sum()};
        });
    check_function<T>(
        "gather", {rows, {table}, {out}, {}, {0}},
        [&](auto functions, const auto& in, const auto& to, Index first_row, Executor*) {
          functions.gather(in[0], ids.data() + first_row, to[0]);
          return kNoNumbers;
        },
        size_of_result);
    check_function<T>(
        "scatter_add", {rows, {a}, {table}, {}, {chain}},
        [&](auto functions, const auto& in, const auto& to, Index first_row, Executor*) {
          functions.scatter_add(in[0], ids.data() + first_row, to[0]);
          return kNoNumbers;
        },
        [&](const auto& in, const auto& before, const auto&) {
          Matrix<Exact> size = abs_of(before[0]);
          for (Index i = 0; i < rows; ++i) size.row(ids[static_cast<std::size_t>(i)]) += abs_of(in[0].row(i));
          return std::vector<Matrix<Exact>>{size};
        });
    check_function<T>(
        "sum_of_squares", {rows, {a}, {}, {}, {}, 2.5},
        [](auto functions, const auto& in, const auto&, Index, Executor*) {
          if constexpr (requires { functions.sum_of_squares(in[0]); }) {
            return std::vector<double>{functions.sum_of_squares(in[0])};
          } else {
            Exact sum = 0;
            for (Index i = 0; i < in[0].rows; ++i) {
              for (Index j = 0; j < in[0].cols; ++j) sum += in[0](i, j) * in[0](i, j);
            }
            return std::vector<double>{static_cast<double>(sum)};
          }
        },
        [](const auto&, const auto&, const auto&) { return std::vector<Matrix<Exact>>(); });
  });
}

TEMPLATE_TEST_CASE("a sum over rows is one chain, from the first row to the last", "[rows]", float, double) {
  using T = TestType;
  using Loops = reference::RowFunctions<T>;
  for (const Index cols : {1, 7, 33, 200}) {
    const Matrix<T> x = random_matrix<T>(1000, cols, 1);
    const Matrix<T> start = random_matrix<T>(3, cols, 2);
    std::vector<std::int32_t> ids;
    for (Index i = 0; i < x.rows(); ++i) ids.push_back(static_cast<std::int32_t>(i * i % 3));
    Matrix<T> sums = start.row(0);
    Matrix<T> expected = sums;
    RowFunctions<T>::column_sums(view(x), mutable_view(sums));
    Loops::column_sums(view(x), mutable_view(expected));
    CHECK(same_bits(sums, expected));
    sums = start.row(0);
    RowFunctions<T>::norm_weight_gradient(view(x), {}, view(x), {}, mutable_view(sums));
    CHECK(same_bits(sums, expected));
    Matrix<T> table = start;
    expected = start;
    RowFunctions<T>::scatter_add(view(x), ids.data(), mutable_view(table));
    Loops::scatter_add(view(x), ids.data(), mutable_view(expected));
    CHECK(same_bits(table, expected));
  }
}
