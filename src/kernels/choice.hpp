#pragma once

// Which table of kernels a process runs, and why: apart from dispatch.cpp, which knows the processor, so that
// every case can be tested on any machine.

#include <span>
#include <string>
#include <string_view>

#include "heed/core/error.hpp"
#include "kernels/kernels.hpp"

namespace heed::kernels {

/// One table of this build; `candidates` go from the weakest to the strongest.
struct Candidate {
  const KernelTable* table;
  bool supported;  ///< Whether the processor has it.
};

struct Choice {
  const KernelTable* table;      ///< What runs.
  const KernelTable* best;       ///< What the processor could run.
  const KernelTable* strongest;  ///< What the build has.
  const KernelTable* cap;        ///< What HEED_ISA named, or nullptr.
};

/// The strongest table that the processor supports, up to the one that `cap` (HEED_ISA, nullptr if not set)
/// names. Throws ArgumentError if cap names none, or if the processor supports none up to it: a build may
/// have left out the weak ones.
inline Choice choose(std::span<const Candidate> candidates, const char* cap) {
  const bool capped = cap != nullptr && *cap != '\0';
  Choice choice{nullptr, nullptr, nullptr, nullptr};
  std::string known;
  for (const Candidate& candidate : candidates) {
    if (candidate.supported) choice.best = candidate.table;
    if (candidate.supported && choice.cap == nullptr) choice.table = candidate.table;
    choice.strongest = candidate.table;
    if (capped && std::string_view(cap) == candidate.table->isa) choice.cap = candidate.table;
    known += (known.empty() ? "" : ", ") + std::string(candidate.table->isa);
  }
  if (capped && choice.cap == nullptr)
    throw_argument_error("HEED_ISA is \"" + std::string(cap) + "\", known are " + known);
  if (choice.table == nullptr) {
    throw_argument_error(
        choice.best == nullptr
            ? "this processor has none of the instruction sets that Heed was built for (HEED_ISAS): " + known
            : "HEED_ISA is \"" + std::string(cap) +
                  "\", of what Heed was built for this processor has only " + choice.best->isa);
  }
  return choice;
}

/// Why this one, for people: "the best of this processor", "capped by HEED_ISA=avx2, ...".
inline std::string reason(const Choice& choice) {
  if (choice.table != choice.best) {
    return "capped by HEED_ISA=" + std::string(choice.cap->isa) + ", this processor has " + choice.best->isa;
  }
  std::string text = "the best of this processor";
  if (choice.best != choice.strongest) text += ", which has no " + std::string(choice.strongest->isa);
  if (choice.cap != nullptr) text += " (HEED_ISA=" + std::string(choice.cap->isa) + " allows it)";
  return text;
}

/// The reason for table(), in dispatch.cpp.
std::string table_reason();

}  // namespace heed::kernels
