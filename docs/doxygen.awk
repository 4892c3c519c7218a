# The input filter of docs/Doxyfile. Heed's comments are plain text, and readable as such; here they become
# what Doxygen takes for it: the opening comment of a header documents the file, indented lines are code,
# and characters that Doxygen would read as commands are escaped.

function escaped(text,   parts, count, i) {
  count = split(text, parts, /\\/)
  text = parts[1]
  for (i = 2; i <= count; ++i) text = text "\001" parts[i]
  gsub(/&/, "\\&amp;", text)
  gsub(/</, "\\&lt;", text)
  gsub(/>/, "\\&gt;", text)
  gsub(/[@#%*|]/, "\\\\&", text)
  count = split(text, parts, /\001/)
  text = parts[1]
  for (i = 2; i <= count; ++i) text = text "\\\\" parts[i]
  gsub(/et al\. /, "et al.\\ ", text)  # no end of a sentence
  return text
}

# comment(INDENT, TEXT): a line of a comment; TEXT is what stands behind the slashes.
function comment(indent, text) {
  if (text ~ /^   /) {
    if (before != "code" && before != "blank") print indent "///"
    print indent "///    " text
    before = "code"
  } else if (text ~ /^ *$/) {
    print indent "///"
    before = "blank"
  } else {
    if (before == "code") print indent "///"
    print indent "///" escaped(text)
    before = "text"
  }
}

FNR == 1 {
  opening = 0
  before = "blank"
  all = FILENAME ~ /include\/heed\/heed\.hpp$/
}

# The header that includes all doors makes the first page: each door, and the words behind its include.
all && /^#include .*\/\/ / {
  match($0, /"[^"]*"/)
  doors = doors "/// - " substr($0, RSTART + 1, RLENGTH - 2) ":" escaped(substr($0, index($0, "//") + 2)) "\n"
  next
}

# The opening comment: the first one, behind "#pragma once".
/^\/\/( |$)/ && opening == 0 {
  print "/// @file\n///"
  opening = 1
  before = "blank"
}
/^\/\/( |$)/ && opening == 1 { comment("", substr($0, 3)); next }
opening == 1 { opening = 2 }

/^ *\/\/\/( |$)/ {
  at = index($0, "///")
  comment(substr($0, 1, at - 1), substr($0, at + 3))
  next
}

{
  before = "blank"
  at = index($0, "///<")
  if (at > 0) print substr($0, 1, at + 3) escaped(substr($0, at + 4))
  else print
}

END {
  if (!all) exit
  print "/// @mainpage Reference\n///\n/// The public headers lie behind these doors; the pages of the files say more.\n///"
  printf "%s", doors
}
