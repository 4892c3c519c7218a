# heed_options(target): warnings, sanitizers and the language level for Heed's own targets.

# NaN and infinity mean something here, and sums are rounded one by one (Python's random numbers are): whatever flags a user builds with.
# The flags after the first are those that it leaves as they are where a user names them one by one.
set(HEED_FLOAT_FLAGS -fno-fast-math -fno-finite-math-only -fno-associative-math -fno-reciprocal-math -fsigned-zeros -ffp-contract=off)

function(heed_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion -Wshadow)
  if(HEED_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(HEED_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${HEED_SANITIZE} -fno-sanitize-recover=all
                                             -fno-omit-frame-pointer -g1)
    target_link_options(${target} PRIVATE -fsanitize=${HEED_SANITIZE})
  endif()
endfunction()
