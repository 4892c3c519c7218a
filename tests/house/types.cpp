// Promises of types, held by the compiler alone: what a run is handed owns nothing and may be copied byte by
// byte, what computes throws nothing, and what owns memory moves without taking any.

#include <concepts>
#include <exception>
#include <type_traits>
#include <utility>

#include "heed/heed.hpp"
#include "kernels/kernels.hpp"
#include "kernels/layer_kernels.hpp"

namespace {

using namespace heed;

/// A value without memory of its own: kept in a task, handed to a kernel, read by another compiler's code.
template <class... T>
constexpr bool plain = ((std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>)&&...);

static_assert(plain<MatrixView<float>, MatrixView<const double>, UntypedView>);
static_assert(std::is_standard_layout_v<MatrixView<float>> && std::is_aggregate_v<MatrixView<float>>);
static_assert(plain<AttentionTensors<float>, AttentionTensors<double>, detail::CacheView>);
static_assert(plain<AttentionBackwardTensors<float>, AttentionBackwardTensors<double>>);
static_assert(plain<MultiHeadAttentionTensors<float>, MultiHeadAttentionTensors<double>>);
static_assert(plain<NormOptions, DropoutOptions, FeedForwardOptions, RowLoss>);

// Views of what may be written are views of what is read, never the other way.
static_assert(std::convertible_to<MatrixView<float>, MatrixView<const float>>);
static_assert(!std::convertible_to<MatrixView<const float>, MatrixView<float>>);
static_assert(!std::convertible_to<MatrixView<double>, MatrixView<const float>>);

// Between the library and its kernels, each compiled for an instruction set of its own, go only such values.
static_assert(plain<kernels::Strided<float>, kernels::AttentionBlock<float>, kernels::BackwardBlock<float>>);
static_assert(plain<kernels::ProductBlock<double>, kernels::CacheRows<float>, kernels::NormRows<float>>);
static_assert(plain<kernels::KernelTable, kernels::Kernels<float>, kernels::LayerKernels<double>>);

template <class Plan, class... Arguments>
constexpr bool runs_without_exceptions =
    noexcept(std::declval<const Plan&>().run(std::declval<Arguments>()...));

static_assert(
    runs_without_exceptions<AttentionPlan<float>, const AttentionTensors<float>&, void*, Executor*>);
static_assert(runs_without_exceptions<AttentionBackwardPlan<double>, const AttentionBackwardTensors<double>&,
                                      void*, Executor*>);
static_assert(runs_without_exceptions<CachedAttentionPlan<float>, const MatrixView<const float>&,
                                      const KvCache<float>&, const MatrixView<float>&, void*, Executor*>);
static_assert(runs_without_exceptions<MultiHeadAttentionPlan<float>, const MultiHeadAttentionTensors<float>&,
                                      void*, Executor*>);
static_assert(
    runs_without_exceptions<MultiHeadAttentionDecodePlan<float>, const MultiHeadAttentionTensors<float>&,
                            KvCache<float>&, void*, Executor*>);

// What owns memory moves, and takes none to do so.
template <class... T>
constexpr bool moves = (std::is_nothrow_move_constructible_v<T> && ...);

static_assert(moves<Mask, AttentionOptions, AttentionPlan<float>, AttentionBackwardPlan<float>, Workspace>);
static_assert(moves<KvCache<float>, CachedAttentionPlan<float>, MultiHeadAttentionPlan<float>>);
static_assert(moves<Linear<float>, Norm<float>, FeedForward<float>, TokenEmbedding<float>>);
static_assert(moves<MultiHeadAttention<float>, Gpt<float>, GptDecoder<float>>);
static_assert(moves<BpeTokenizer, CharTokenizer, TokenWindows>);

// Masks and plans are values.
static_assert(std::copyable<Mask> && std::copyable<AttentionPlan<float>>);

// An executor is used and destroyed through its base.
static_assert(std::is_abstract_v<Executor> && std::has_virtual_destructor_v<Executor>);

// The library's errors are one family.
static_assert(std::derived_from<ShapeError, Error> && std::derived_from<ArgumentError, Error> &&
              std::derived_from<RangeError, Error> && std::derived_from<Error, std::exception>);

}  // namespace
